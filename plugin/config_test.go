package plugin

import (
	"log/slog"
	"os"
	"reflect"
	"strings"
	"testing"
	"time"

	"out_k8saudit/batch/webhook"
)

func TestDefaults(t *testing.T) {
	c, err := ParseConfig(from("url", "https://webhook/audit"))
	if err != nil {
		t.Fatal(err)
	}
	c.Webhook.UserAgent = ""
	want := Config{Mode: ModeBlocking, FlushTimeout: 4 * time.Second, DrainTimeout: 10 * time.Second, LogKey: "log", RestoreTimestamp: true, TruncateAbove: 102400, LogLevel: slog.LevelInfo}
	want.Webhook.URL = "https://webhook/audit"
	want.Webhook.RequestTimeout = 30 * time.Second
	want.Webhook.MaxConcurrentRequests = 4
	want.Webhook.MaxBodyBytes = 1000000
	b := &want.Batch
	b.MaxSize, b.MaxBytes, b.MaxWait = 2000, 1000000, time.Second
	b.BufferSize, b.BufferBytes = 100000, 64000000
	b.ThrottleQPS, b.ThrottleBurst = 10, 15
	b.MaxConcurrentRequests = 4
	b.InitialBackoff, b.MaxBackoff = time.Second, 30*time.Second
	b.SlowAfter = 4 * time.Second
	c.Batch.Observer, want.Batch.Observer = want.Batch.Observer, c.Batch.Observer
	if got, want := *c, want; !equal(got, want) {
		t.Errorf("\n got %+v\nwant %+v", got, want)
	}
}

// equal compares all but the functions in Batch.Observer, which a Config that
// was just parsed does not have.
func equal(a, b Config) bool {
	ab, bb := a.Batch, b.Batch
	return reflect.DeepEqual(a.Webhook, b.Webhook) && a.Mode == b.Mode && a.FlushTimeout == b.FlushTimeout && a.DrainTimeout == b.DrainTimeout &&
		a.Truncate == b.Truncate && a.TruncateAbove == b.TruncateAbove && a.StateDir == b.StateDir && a.DeadLetterDir == b.DeadLetterDir && a.LogKey == b.LogKey && a.RestoreTimestamp == b.RestoreTimestamp && a.Instance == b.Instance && a.LogLevel == b.LogLevel &&
		ab.MaxSize == bb.MaxSize && ab.MaxBytes == bb.MaxBytes && ab.MaxWait == bb.MaxWait && ab.BufferSize == bb.BufferSize &&
		ab.BufferBytes == bb.BufferBytes && ab.ThrottleEnable == bb.ThrottleEnable && ab.ThrottleQPS == bb.ThrottleQPS &&
		ab.ThrottleBurst == bb.ThrottleBurst && ab.MaxConcurrentRequests == bb.MaxConcurrentRequests &&
		ab.InitialBackoff == bb.InitialBackoff && ab.MaxBackoff == bb.MaxBackoff && ab.SlowAfter == bb.SlowAfter
}

func TestEveryKeyReachesItsPlace(t *testing.T) {
	c, err := ParseConfig(from(
		"URL", " http://w/a ", "CA_File", "/ca", "Cert_File", "/cert", "Key_File", "/key", "Server_Name", "name",
		"Insecure_Skip_Verify", "true", "Bearer_Token_File", "/token", "HTTP_User", "me", "HTTP_Passwd", "hunter2",
		"Headers", `X-Scope-OrgID: audit | X-Api-Key k:1\|2`, "Proxy_URL", "http://proxy", "HTTP2", "On", "Compress", "GZIP", "Mode", "Batch",
		"Batch_Max_Size", "7", "Batch_Max_Bytes", "2Mi", "Batch_Max_Wait", "250ms",
		"Batch_Buffer_Size", "8", "Batch_Buffer_Bytes", "1G", "Batch_Throttle_Enable", "yes", "Batch_Throttle_QPS", "0.5",
		"Batch_Throttle_Burst", "3", "Max_Concurrent_Requests", "9", "Initial_Backoff", "2", "Max_Backoff", "1m",
		"Request_Timeout", "1.5", "Flush_Timeout", "3s", "Drain_Timeout", "0", "Log_Key", "message",
		"Restore_Timestamp", "off", "Instance", "siem", "Plugin_Log_Level", "debug",
		"Truncate_Enabled", "On", "Truncate_Max_Event_Size", "64Ki", "State_Dir", "/tmp", "Dead_Letter_Dir", "/"))
	if err != nil {
		t.Fatal(err)
	}
	want := Config{Mode: ModeBatch, FlushTimeout: 3 * time.Second, LogKey: "message", Instance: "siem", Truncate: true, TruncateAbove: 64 << 10, StateDir: "/tmp", DeadLetterDir: "/", LogLevel: slog.LevelDebug}
	w := &want.Webhook
	w.URL, w.CAFile, w.CertFile, w.KeyFile, w.ServerName = "http://w/a", "/ca", "/cert", "/key", "name"
	w.InsecureSkipVerify, w.BearerTokenFile, w.RequestTimeout = true, "/token", 1500*time.Millisecond
	w.Username, w.Password, w.ProxyURL, w.HTTP2, w.Gzip = "me", "hunter2", "http://proxy", true, true
	w.Headers = []webhook.Header{{Name: "X-Scope-OrgID", Value: "audit"}, {Name: "X-Api-Key", Value: "k:1|2"}}
	w.MaxConcurrentRequests, w.MaxBodyBytes = 9, 2<<20
	b := &want.Batch
	b.MaxSize, b.MaxBytes, b.MaxWait, b.BufferSize, b.BufferBytes = 7, 2<<20, 250*time.Millisecond, 8, 1e9
	b.ThrottleEnable, b.ThrottleQPS, b.ThrottleBurst, b.MaxConcurrentRequests = true, 0.5, 3, 9
	b.InitialBackoff, b.MaxBackoff, b.SlowAfter = 2*time.Second, time.Minute, 3*time.Second
	if !equal(*c, want) {
		t.Errorf("\n got %+v\nwant %+v", *c, want)
	}
	c, err = ParseConfig(from("webhook_config_file", "/kubeconfig"))
	if err != nil || c.Webhook.ConfigFile != "/kubeconfig" || c.Webhook.URL != "" {
		t.Errorf("Webhook_Config_File: %+v (%v)", c.Webhook, err)
	}
}

func TestAWrongValueNamesKeyValueAndRemedy(t *testing.T) {
	for _, tt := range []struct{ key, value, remedy string }{
		{"Mode", "async", "write blocking or batch"},
		{"Mode", "blocking-strict", "write blocking"},
		{"Insecure_Skip_Verify", "maybe", "write On or Off"},
		{"Batch_Throttle_Enable", "2", "write On or Off"},
		{"Restore_Timestamp", "-", "write On or Off"},
		{"Batch_Max_Size", "0", "from 1 to 1000000"},
		{"Batch_Max_Size", "-4", "from 1 to 1000000"},
		{"Batch_Max_Size", "many", "whole number"},
		{"Batch_Max_Size", "1e3", "whole number"},
		{"Batch_Max_Bytes", "1T", "write bytes such as"},
		{"Batch_Max_Bytes", "M", "write bytes such as"},
		{"Batch_Max_Bytes", "-1M", "write a size from"},
		{"Batch_Max_Bytes", "NaN", "write bytes such as"},
		{"Batch_Max_Bytes", "10", "write a size from"},
		{"Batch_Max_Wait", "0", "from 1ms"},
		{"Batch_Max_Wait", "soon", "write seconds such as"},
		{"Batch_Buffer_Size", "0", "from 1"},
		{"Batch_Buffer_Bytes", "1", "write a size from"},
		{"Batch_Throttle_QPS", "0", "above 0"},
		{"Batch_Throttle_QPS", "NaN", "above 0"},
		{"Batch_Throttle_Burst", "0", "from 1"},
		{"Max_Concurrent_Requests", "0", "from 1 to 1000"},
		{"Truncate_Enabled", "maybe", "write On or Off"},
		{"Truncate_Max_Event_Size", "0", "out of bounds"},
		{"Truncate_Max_Event_Size", "big", "not a size"},
		{"Initial_Backoff", "-1s", "out of bounds"},
		{"Max_Backoff", "1e30", "write seconds such as"},
		{"Request_Timeout", "0", "from 100ms"},
		{"Flush_Timeout", "4 s", "write seconds such as"},
		{"Drain_Timeout", "2h", "from 0s to 1h"},
		{"HTTP2", "2", "write On or Off"},
		{"Compress", "zstd", "write none or gzip"},
		{"Plugin_Log_Level", "loud", "write off, error, warn, info or debug"},
	} {
		_, err := ParseConfig(from("URL", "http://w/", tt.key, tt.value))
		if err == nil {
			t.Errorf("%s %q is taken", tt.key, tt.value)
			continue
		}
		for _, want := range []string{tt.key, `"` + tt.value + `"`, tt.remedy} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s %q: the error does not say %s: %v", tt.key, tt.value, want, err)
			}
		}
	}
}

func TestValuesThatDoNotGoTogether(t *testing.T) {
	_, err := ParseConfig(from("URL", "http://w/", "Initial_Backoff", "1m", "Batch_Max_Size", "100", "Batch_Buffer_Size", "10", "Batch_Max_Bytes", "2M", "Batch_Buffer_Bytes", "1M"))
	if err == nil {
		t.Fatal("taken")
	}
	for _, want := range []string{"Max_Backoff 30s", "Batch_Buffer_Size 10", "Batch_Buffer_Bytes 1000000"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not name %s: %v", want, err)
		}
	}
}

func TestSizesAreFluentBitsAndBinaryOnes(t *testing.T) {
	for value, want := range map[string]int{
		"5000": 5000, "5k": 5000, "5KB": 5000, "1.5M": 1500000, "2mb": 2000000, "1G": 1e9, "5000B": 5000,
		"5Ki": 5120, "5kib": 5120, "1Mi": 1 << 20, "0.5Gi": 1 << 29, "7 k": 7000,
	} {
		var got int
		if err := setSize(&got, value, 1, 1<<40); err != nil || got != want {
			t.Errorf("%s = %d (%v), want %d", value, got, err, want)
		}
	}
}

func TestTheSettingsLineHasEveryTimeAndNoSecret(t *testing.T) {
	line := settings(from("URL", "https://u:secret@webhook/p?token=secret"))
	for _, want := range []string{"url=https://webhook/p?", "flush_timeout=4s", "drain_timeout=10s", "request_timeout=30s", "mode=blocking", "log_key=log"} {
		if !strings.Contains(line, want) {
			t.Errorf("it lacks %s: %s", want, line)
		}
	}
	if strings.Contains(line, "secret") {
		t.Errorf("it holds a secret: %s", line)
	}
}

func TestNoLineShowsASecret(t *testing.T) {
	values := []string{
		"URL", "https://u:hunter2@webhook/p?token=hunter2#hunter2", "HTTP_User", "me", "HTTP_Passwd", "hunter2",
		"Headers", "X-Api-Key: hunter2 | X-Tenant hunter2|hunter2", "Proxy_URL", "http://me:hunter2@proxy:3128",
	}
	line := settings(from(values...))
	for _, want := range []string{
		"url=https://webhook/p?... ", "http_user=me ", "http_passwd=... ", "proxy_url=http://proxy:3128 ", `headers="X-Api-Key: ... | X-Tenant: ... | : ..." `,
		"http2=Off ", "compress=none ",
	} {
		if !strings.Contains(line, want) {
			t.Errorf("it lacks %s: %s", want, line)
		}
	}
	err := Check(from(values...))
	if err == nil {
		t.Fatal("taken")
	}
	for _, text := range []string{line, err.Error()} {
		if strings.Contains(text, "hunter") {
			t.Errorf("a secret in: %s", text)
		}
	}
	if line := settings(from("URL", "https://u:hunter2/@webhook")); strings.Contains(line, "hunter") {
		t.Errorf("a secret in: %s", line)
	}
}

func TestHeaders(t *testing.T) {
	for value, want := range map[string][]webhook.Header{
		"X-A: b":               {{Name: "X-A", Value: "b"}},
		"X-A b":                {{Name: "X-A", Value: "b"}},
		"X-A:b":                {{Name: "X-A", Value: "b"}},
		"X-A  :  b c ":         {{Name: "X-A", Value: "b c"}},
		"X-A b:c":              {{Name: "X-A", Value: "b:c"}},
		"X-A: b, c; d=e|X-B f": {{Name: "X-A", Value: "b, c; d=e"}, {Name: "X-B", Value: "f"}},
		`X-A: a\|b\c`:          {{Name: "X-A", Value: `a|b\c`}},
		"X-A":                  nil,
		"X-A:":                 nil,
		": b":                  nil,
		"X-A: b |":             nil,
	} {
		var got []webhook.Header
		err := setHeaders(&got, value)
		if want == nil {
			if err == nil || !strings.Contains(err.Error(), "write Name: value") {
				t.Errorf("%q: %v, want an error", value, err)
			}
			continue
		}
		if err != nil || !reflect.DeepEqual(got, want) {
			t.Errorf("%q: got %q (%v), want %q", value, got, err, want)
		}
	}
}

func TestTheREADMEsTableOfKeysIsThisOne(t *testing.T) {
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(readme), KeyTable()) {
		t.Errorf("README.md does not hold this table of keys:\n%s", KeyTable())
	}
}
