package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// folder writes files into a new folder and makes it the working directory.
func folder(t *testing.T, files map[string]string) {
	t.Helper()
	dir := t.TempDir()
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Chdir(dir)
}

// wantRun asserts status and output of the command.
func wantRun(t *testing.T, file string, status int, stdout, stderr string) {
	t.Helper()
	var out, err bytes.Buffer
	got := run([]string{file}, &out, &err)
	if got != status || out.String() != stdout || err.String() != stderr {
		t.Errorf("status %d, want %d\n got %s%s\nwant %s%s", got, status, &out, &err, stdout, stderr)
	}
}

const classic = `# comment
[SERVICE]
    Flush 1
    plugins_file none.conf

[INPUT]
    Name  tail
    Path  /var/log/audit.log

[OUTPUT]
    Name  stdout
    Match *
    Mode  whatever

[output]
    NAME        K8sAudit
    Match       *
    # comment
    uRL         https://webhook/audit
    Mode        batch
    Workers     1
    Retry_Limit no_limits
`

func TestAClassicFileWithoutFaults(t *testing.T) {
	folder(t, map[string]string{"fluent-bit.conf": classic})
	wantRun(t, "fluent-bit.conf", 0, "fluent-bit.conf: k8saudit outputs 1, faults 0\n", "")
}

func TestFaultsAreNamedWithSectionAndLine(t *testing.T) {
	folder(t, map[string]string{"fluent-bit.conf": strings.ReplaceAll(classic, "batch", "fast") + `
[OUTPUT]
    Name k8saudit
    Webhook_URL https://webhook
    CA_File missing.pem
    Retry_Limit no_limits
    Workers 1
    Host webhook
    tls on
    Batch_Max_Size 7
    batch_max_size 8
`})
	wantRun(t, "fluent-bit.conf", 1, `fluent-bit.conf:15: output 2: Mode "fast": not a mode: write blocking or batch
fluent-bit.conf:24: output 3: webhook_url: there is no such key: write URL
fluent-bit.conf:24: output 3: URL: not set, and neither is Webhook_Config_File: set one of the two, such as URL https://audit.example.com/events
fluent-bit.conf:24: output 3: CA_File: open missing.pem: no such file or directory: give a readable file of PEM certificates
fluent-bit.conf:24: output 3: tls: Fluent Bit refuses it for a plugin: leave it out, an https URL is enough
fluent-bit.conf:24: output 3: note: batch_max_size is given twice: the plugin gets the first only
fluent-bit.conf:24: output 3: note: host: Fluent Bit keeps it for itself and the plugin never sees it: write it into URL
fluent-bit.conf: k8saudit outputs 2, faults 5: Fluent Bit will not start
`, "")
}

func TestWhatCostsEventsIsNoted(t *testing.T) {
	folder(t, map[string]string{"fluent-bit.conf": "[OUTPUT]\n  Name k8saudit\n  URL http://w/\n"})
	wantRun(t, "fluent-bit.conf", 0, `fluent-bit.conf:1: output 1: note: retry_limit is not set: Fluent Bit drops a chunk after one retry; set it to no_limits
fluent-bit.conf:1: output 1: note: workers is not set: a slow webhook holds up Fluent Bit's engine; set it to 1
fluent-bit.conf: k8saudit outputs 1, faults 0
`, "")
}

const tail = "  Retry_Limit no_limits\n  Workers 1\n"

func TestIncludesAndVariablesOfAClassicFile(t *testing.T) {
	t.Setenv("CHECK_SIZE", "9")
	t.Setenv("CHECK_EMPTY", "")
	folder(t, map[string]string{
		"conf/fluent-bit.conf": "@SET mode=fast\n@INCLUDE outputs/*.conf\n@include beside.conf\n@INCLUDE here.conf\n",
		"conf/outputs/a.conf":  "[OUTPUT]\n  Name k8saudit\n  URL http://w/\n  Mode ${mode}\n" + tail,
		"conf/outputs/b.conf":  "[OUTPUT]\n  Name k8saudit\n  URL http://w/${CHECK_NONE}\n  Batch_Max_Size x${CHECK_SIZE}y${CHECK_SIZE:-1}\n" + tail,
		"conf/beside.conf":     "[OUTPUT]\n  Name k8saudit\n  URL http://w/\n  Mode ${CHECK_EMPTY:-slow}\n" + tail,
		"here.conf":            "[OUTPUT]\n  Name k8saudit\n  URL http://w/\n  Mode ${mode}${unclosed\n" + tail,
	})
	wantRun(t, "conf/fluent-bit.conf", 1, `conf/outputs/a.conf:1: output 1: Mode "fast": not a mode: write blocking or batch
conf/outputs/b.conf:1: output 2: Batch_Max_Size "x9y9": not a whole number: write one from 1 to 1000000
conf/outputs/b.conf:1: output 2: note: url: ${CHECK_NONE} is not set here, and so empty
conf/beside.conf:1: output 3: Mode "slow": not a mode: write blocking or batch
here.conf:1: output 4: Mode "fast${unclosed": not a mode: write blocking or batch
conf/fluent-bit.conf: k8saudit outputs 4, faults 4: Fluent Bit will not start
`, "")
}

func TestGroupsOfASectionAreNotItsKeys(t *testing.T) {
	folder(t, map[string]string{"f.conf": "[OUTPUT]\n  Name k8saudit\n  [PROCESSORS]\n    Mode fast\n    URL x\n  URL http://w/\n" + tail})
	wantRun(t, "f.conf", 0, "f.conf: k8saudit outputs 1, faults 0\n", "")
}

const yamlConfig = `
env:
  mode: batch
service:
  flush: 1
includes:
  - more/*.yaml
pipeline:
  inputs:
    - name: tail
  outputs:
    - name: stdout
      match: '*'
    - name: k8saudit
      match: '*'
      url: http://w/
      mode: ${mode}
      batchMaxSize: 7
      batch_max_bytes: 1e6
      http2: off
      restore_timestamp: on
      headers: "X-A: b | X-B: c"
      workers: 1
      retry_limit: no_limits
      processors:
        logs:
          - name: content_modifier
`

func TestAYAMLFile(t *testing.T) {
	folder(t, map[string]string{
		"fluent-bit.yaml": yamlConfig,
		"more/a.yaml":     "pipeline:\n  outputs:\n  - {name: k8saudit, URL: 'http://w/', Batch_Max_Size: 0x7, mode: [fast, batch], tls: on, retry_limit: no_limits, workers: 1}\n",
	})
	wantRun(t, "fluent-bit.yaml", 1, `more/a.yaml:3: output 1: Mode "fast": not a mode: write blocking or batch
more/a.yaml:3: output 1: Batch_Max_Size "0x7": not a whole number: write one from 1 to 1000000
more/a.yaml:3: output 1: tls: Fluent Bit refuses it for a plugin: leave it out, an https URL is enough
more/a.yaml:3: output 1: note: mode is given twice: the plugin gets the first only
fluent-bit.yaml: k8saudit outputs 2, faults 3: Fluent Bit will not start
`, "")
}

func TestKeysOfYAMLMayBeCamelCase(t *testing.T) {
	for key, want := range map[string]string{
		"batchMaxSize": "batch_max_size", "url": "url", "URL": "URL", "BatchMaxSize": "BatchMaxSize", "batch_maxSize": "batch_maxSize", "batch-max-size": "batch-max-size", "": "",
	} {
		if got := snakeCase(key); got != want {
			t.Errorf("%s: %s, want %s", key, got, want)
		}
	}
}

func TestFilesThatFluentBitDoesNotRead(t *testing.T) {
	for _, tt := range []struct{ name, content, want string }{
		{"f.conf", "[OUTPUT\n", "f.conf:1: a section without its ]\n"},
		{"f.conf", "[OUTPUT]\n  Name\n", "f.conf:2: Name has no value behind a space: Fluent Bit does not start\n"},
		{"f.conf", "[OUTPUT]\n  HTTP_Passwd\thunter2\n", "f.conf:2: HTTP_Passwd has no value behind a space: Fluent Bit does not start\n"},
		{"f.conf", "[OUTPUT]\nName hunter2\n", "f.conf:2: \"Name\" is not indented: Fluent Bit wants the keys of a section so\n"},
		{"f.conf", "@SET x\n", "f.conf:1: @SET without a =\n"},
		{"f.conf", "@INCLUDE f.conf\n", "f.conf:1: f.conf is read twice: Fluent Bit reads a file once\n"},
		{"f.conf", "@INCLUDE none.conf\n", "f.conf:1: open none.conf: no such file or directory\n"},
		{"f.conf", "@INCLUDE none/*.conf\n", "f.conf:1: none/*.conf: no such file, and Fluent Bit wants one\n"},
		{"f.conf", "[OUTPUT]\n  Name stdout\n", "f.conf: none of its 1 outputs has the name k8saudit\n"},
		{"f.yaml", "a: [\n", "f.yaml: yaml: line 1: did not find expected node content\n"},
		{"f.yaml", "includes: [f.yaml]\n", "f.yaml:1: f.yaml is read twice: Fluent Bit reads a file once\n"},
		{"f.yml", "", "f.yml: none of its 0 outputs has the name k8saudit\n"},
		{"f.yaml", "- a\n", "f.yaml: none of its 0 outputs has the name k8saudit\n"},
	} {
		folder(t, map[string]string{tt.name: tt.content})
		wantRun(t, tt.name, 1, "", tt.want)
	}
}

func TestTheConfigurationsThatAreShippedHaveNoFaults(t *testing.T) {
	files, err := filepath.Glob("../../fluent-bit*.*")
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	for _, file := range files {
		wantRun(t, file, 0, file+": k8saudit outputs 1, faults 0\n", "")
	}
}

func TestUsage(t *testing.T) {
	for _, args := range [][]string{nil, {"-h"}, {"a", "b"}} {
		var out, err bytes.Buffer
		if status := run(args, &out, &err); status != 2 || !strings.HasPrefix(err.String(), "usage: checkconfig FILE") || out.Len() > 0 {
			t.Errorf("%v: status %d, %s%s", args, status, &out, &err)
		}
	}
}

func FuzzClassic(f *testing.F) {
	f.Add(classic)
	f.Add("[OUTPUT]\n  a ${b:-c}${d\n@SET b=\n\t[x]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c := &config{set: map[string]string{}, read: map[string]bool{}}
		if strings.Contains(strings.ToUpper(text), "@INCLUDE") {
			return
		}
		if err := c.readClassic("f", text); err != nil {
			return
		}
		for i := range c.outputs {
			for _, p := range c.outputs[i].properties {
				if p.key == "" || p.value == "" {
					t.Errorf("%q", p)
				}
				c.expand(&c.outputs[i], p)
			}
		}
	})
}
