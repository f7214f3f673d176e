// This file holds the README's table of flags, and the plugin's table of keys,
// against the flags that an API server has.

package peers

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/options"

	"out_k8saudit/plugin"
)

// webhookFlags is an API server's flags --audit-webhook-*, by name.
func webhookFlags() (flags []*pflag.Flag) {
	fs := pflag.NewFlagSet("kube-apiserver", pflag.ContinueOnError)
	options.NewAuditOptions().AddFlags(fs)
	fs.VisitAll(func(f *pflag.Flag) {
		if strings.HasPrefix(f.Name, "audit-webhook-") {
			flags = append(flags, f)
		}
	})
	return flags
}

// rows is the rows of the first Markdown table in text, without its head.
func rows(t *testing.T, text string, columns int) (rows [][]string) {
	t.Helper()
	_, text, ok := strings.Cut(text, "\n|---")
	if !ok {
		t.Fatal("there is no table")
	}
	for _, line := range strings.Split(text, "\n")[1:] {
		if !strings.HasPrefix(line, "|") {
			break
		}
		cells := strings.Split(strings.Trim(line, "|"), "|")
		if len(cells) != columns {
			t.Fatalf("%d columns, want %d: %s", len(cells), columns, line)
		}
		for i := range cells {
			cells[i] = strings.TrimSpace(cells[i])
		}
		rows = append(rows, cells)
	}
	return rows
}

// flagRow is a row of the README's table of flags, in its cells' own markup.
type flagRow struct{ flag, there, key, here, note string }

func flagTable(t *testing.T) (table []flagRow) {
	t.Helper()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, ok := strings.Cut(string(readme), "\n## kube-apiserver's flags\n")
	if !ok {
		t.Fatal("README.md has no section on kube-apiserver's flags")
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, r := range rows(t, section, 5) {
		table = append(table, flagRow{r[0], r[1], r[2], r[3], r[4]})
	}
	return table
}

// keyRow is a row of the plugin's table of keys, in its cells' own markup.
type keyRow struct{ key, def, flag string }

func keyTable(t *testing.T) (table []keyRow) {
	t.Helper()
	for _, r := range rows(t, plugin.KeyTable(), 4) {
		table = append(table, keyRow{r[0], r[1], r[2]})
	}
	return table
}

func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + s + "`"
}

func TestTheREADMEHasEveryWebhookFlagWithItsDefault(t *testing.T) {
	var got, want []string
	for _, r := range flagTable(t) {
		got = append(got, r.flag+" "+r.there)
	}
	for _, f := range webhookFlags() {
		want = append(want, code("--"+f.Name)+" "+code(f.DefValue))
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("README.md has these flags and defaults:\n%s\nwant those of the API server:\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestEachFlagsKeyExistsWithItsDefault(t *testing.T) {
	keys := keyTable(t)
	deprecated := map[string]bool{}
	for _, f := range webhookFlags() {
		deprecated[code("--"+f.Name)] = f.Deprecated != ""
	}
	for _, r := range flagTable(t) {
		if r.key == "none" {
			if r.here != "" || r.note == "" {
				t.Errorf("%s has no key: its row needs a note and no default", r.flag)
			}
			continue
		}
		i := slices.IndexFunc(keys, func(k keyRow) bool { return k.key == r.key })
		if i < 0 {
			t.Errorf("%s: there is no key %s", r.flag, r.key)
			continue
		}
		if keys[i].def != r.here {
			t.Errorf("%s: the default of %s is %s, not %s", r.flag, r.key, keys[i].def, r.here)
		}
		// A deprecated flag is another name of one that is not.
		if keys[i].flag != r.flag && !deprecated[r.flag] {
			t.Errorf("%s: the flag of %s is %q", r.flag, r.key, keys[i].flag)
		}
	}
}

func TestEachKeysFlagExists(t *testing.T) {
	flags := map[string]*pflag.Flag{}
	for _, f := range webhookFlags() {
		flags[code("--"+f.Name)] = f
	}
	table := flagTable(t)
	for _, k := range keyTable(t) {
		if k.flag == "" {
			continue
		}
		if f := flags[k.flag]; f == nil || f.Deprecated != "" {
			t.Errorf("%s: the API server has no flag %s that is not deprecated", k.key, k.flag)
		}
		if !slices.ContainsFunc(table, func(r flagRow) bool { return r.flag == k.flag && r.key == k.key }) {
			t.Errorf("%s: the table of flags does not name it for %s", k.key, k.flag)
		}
	}
}

func TestTheKeysInTheNotesExist(t *testing.T) {
	keys := keyTable(t)
	for _, r := range flagTable(t) {
		for _, name := range regexp.MustCompile("`[A-Z][A-Za-z]*(_[A-Za-z]+)+`").FindAllString(r.note, -1) {
			if !slices.ContainsFunc(keys, func(k keyRow) bool { return k.key == name }) {
				t.Errorf("%s: its note names %s, which is no key", r.flag, name)
			}
		}
	}
}

func TestTheAPIServersOtherModeIsRefused(t *testing.T) {
	err := plugin.Check(func(key string) string {
		return map[string]string{"URL": "http://webhook.example/", "Mode": options.ModeBlockingStrict}[key]
	})
	if err == nil || !strings.Contains(err.Error(), `Mode "blocking-strict"`) {
		t.Errorf("%v, want Mode refused", err)
	}
}
