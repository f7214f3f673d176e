package plugin

import (
	"strings"
	"testing"
)

func TestMisspeltKeysAreRefusedWithTheRightOne(t *testing.T) {
	for _, tt := range []struct{ name, remedy string }{
		// The name, otherwise separated.
		{"Batch-Max-Size", "write Batch_Max_Size"},
		{"BatchMaxSize", "write Batch_Max_Size"},
		{"batch.max.size", "write Batch_Max_Size"},
		{"Webhook_Config-File", ""}, // half and half: nobody does
		{"webhookConfigFile", "write Webhook_Config_File"},
		{"CA-File", "write CA_File"},
		{"cafile", "write CA_File"},
		{"http-user", "write HTTP_User"},
		{"pluginLogLevel", "write Plugin_Log_Level"},
		// kube-apiserver's flags.
		{"--audit-webhook-batch-max-size", "write Batch_Max_Size"},
		{"audit-webhook-batch-max-size", "write Batch_Max_Size"},
		{"Audit_Webhook_Batch_Max_Size", "write Batch_Max_Size"},
		{"webhook-batch-max-size", "write Batch_Max_Size"},
		{"audit-webhook-config-file", "write Webhook_Config_File"},
		{"config-file", "write Webhook_Config_File"},
		{"audit-webhook-mode", "write Mode"},
		{"audit-webhook-initial-backoff", "write Initial_Backoff"},
		{"audit-webhook-batch-throttle-enable", "write Batch_Throttle_Enable"},
		{"audit-webhook-version", "events are sent as audit.k8s.io/v1, which is what that flag allows; leave it out"},
		{"audit_webhook_truncate_max_batch_size", "use Batch_Max_Bytes"},
		// A neighbour's.
		{"Endpoint", "write URL"},
		{"Webhook_URL", "write URL"},
		{"WebhookURL", "write URL"},
		{"URI", "write URL"},
		{"kubeconfig", "write Webhook_Config_File"},
		{"tls_ca_file", "write CA_File"},
		{"tls.ca_file", "write CA_File"},
		{"tls.verify", "write Insecure_Skip_Verify"},
		{"Bearer_Token", "write Bearer_Token_File"},
		{"HTTP_Password", "write HTTP_Passwd"},
		{"Header", "write Headers"},
		{"Compression", "write Compress"},
		{"Timeout", "write Request_Timeout"},
		{"Batch_Size", "write Batch_Max_Size"},
		// A slip of the finger.
		{"Flush_Timout", "write Flush_Timeout"},
		{"Flush_Tiemout", "write Flush_Timeout"},
		{"Flussh_Timeout", "write Flush_Timeout"},
		{"Max_Concurrent_Request", "write Max_Concurrent_Requests"},
		{"Drain__Timeout", "write Drain_Timeout"},
	} {
		_, err := ParseConfig(from("URL", "http://w/", tt.name, "hunter2"))
		if tt.remedy == "" {
			if err != nil {
				t.Errorf("%s: %v", tt.name, err)
			}
			continue
		}
		if want := strings.ToLower(tt.name) + ": there is no such key: " + tt.remedy; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

func TestAMisspeltKeyIsNamedBesideTheOtherFaults(t *testing.T) {
	err := Check(from("Webhook_URL", "http://w/", "Mode", "fast", "Batch-Max-Size", "7", "Batch_Buffer_Size", "0"))
	want := `batch-max-size: there is no such key: write Batch_Max_Size
webhook_url: there is no such key: write URL
Mode "fast": not a mode: write blocking or batch
Batch_Buffer_Size "0": out of bounds: write a number from 1 to 1000000000
URL: not set, and neither is Webhook_Config_File: set one of the two, such as URL https://audit.example.com/events`
	if err == nil || err.Error() != want {
		t.Errorf("\n got %v\nwant %s", err, want)
	}
}

func TestNoWrongSpellingIsAKey(t *testing.T) {
	valid := map[string]bool{}
	for _, k := range keys {
		valid[strings.ToLower(k.name)] = true
	}
	for _, name := range fluentBitsOwn {
		valid[name] = true
	}
	all := wrongSpellings()
	seen := map[string]bool{}
	for _, w := range all {
		if valid[w.name] || seen[w.name] || w.name != strings.ToLower(w.name) {
			t.Errorf("%s is a key, or asked for twice", w.name)
		}
		seen[w.name] = true
	}
	// Each one is a call into Fluent Bit at the start.
	if len(all) < 1000 || len(all) > 5000 {
		t.Errorf("%d names", len(all))
	}
	for name, right := range elsewhere {
		if !valid[strings.ToLower(right)] || name != strings.ToLower(name) {
			t.Errorf("%s leads to %s, which is no key", name, right)
		}
		if valid[name] {
			t.Errorf("%s is a key by itself", name)
		}
	}
	// Every key is asked for as it is, and nothing of it is refused.
	get := func(name string) string {
		if valid[strings.ToLower(name)] {
			return "x"
		}
		return ""
	}
	if faults := misspelt(get); len(faults) > 0 {
		t.Errorf("%v", faults)
	}
}

func BenchmarkMisspelt(b *testing.B) {
	for b.Loop() {
		misspelt(func(string) string { return "" })
	}
}
