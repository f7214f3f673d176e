// This file finds keys that were meant otherwise. Fluent Bit hands a plugin the keys
// that it asks for and says nothing of the others, so a misspelt key would silently
// do nothing: the likely wrong spellings are asked for too.

package plugin

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// elsewhere are names that other software, or one who guesses, has for a key of this
// plugin. In lower case and with underscores: spellings makes the others.
var elsewhere = map[string]string{
	"webhook_url": "URL", "webhook_uri": "URL", "webhook": "URL", "webhook_endpoint": "URL", "webhook_address": "URL", "endpoint": "URL",
	"uri": "URL", "address": "URL", "server": "URL", "server_url": "URL", "target": "URL", "target_url": "URL", "destination": "URL",
	"http_url": "URL", "http_endpoint": "URL", "audit_url": "URL", "audit_webhook_url": "URL",
	"webhook_config": "Webhook_Config_File", "config_file": "Webhook_Config_File", "kubeconfig": "Webhook_Config_File",
	"kube_config": "Webhook_Config_File", "kubeconfig_file": "Webhook_Config_File", "kubeconfig_path": "Webhook_Config_File",
	"ca": "CA_File", "ca_cert": "CA_File", "ca_path": "CA_File", "ca_cert_file": "CA_File", "ca_bundle": "CA_File", "cacert": "CA_File",
	"tls_ca": "CA_File", "tls_ca_file": "CA_File", "certificate_authority": "CA_File", "http_ca_file": "CA_File",
	"cert": "Cert_File", "crt_file": "Cert_File", "tls_cert": "Cert_File", "tls_cert_file": "Cert_File", "tls_crt_file": "Cert_File",
	"client_cert": "Cert_File", "client_cert_file": "Cert_File", "client_certificate": "Cert_File", "certificate_file": "Cert_File",
	"key": "Key_File", "tls_key": "Key_File", "tls_key_file": "Key_File", "client_key": "Key_File", "client_key_file": "Key_File",
	"tls_server_name": "Server_Name", "sni": "Server_Name", "tls_vhost": "Server_Name",
	"insecure": "Insecure_Skip_Verify", "skip_verify": "Insecure_Skip_Verify", "insecure_skip_tls_verify": "Insecure_Skip_Verify",
	"tls_insecure": "Insecure_Skip_Verify", "tls_verify": "Insecure_Skip_Verify", "tls_insecure_skip_verify": "Insecure_Skip_Verify",
	"verify": "Insecure_Skip_Verify",
	"token":  "Bearer_Token_File", "token_file": "Bearer_Token_File", "bearer_token": "Bearer_Token_File", "auth_token": "Bearer_Token_File",
	"http_token": "Bearer_Token_File", "token_path": "Bearer_Token_File", "authorization": "Headers",
	"user": "HTTP_User", "username": "HTTP_User", "http_username": "HTTP_User", "basic_auth_user": "HTTP_User", "basic_auth_username": "HTTP_User",
	"password": "HTTP_Passwd", "passwd": "HTTP_Passwd", "http_password": "HTTP_Passwd", "http_pass": "HTTP_Passwd", "basic_auth_password": "HTTP_Passwd",
	"header": "Headers", "http_headers": "Headers", "http_header": "Headers", "custom_headers": "Headers", "extra_headers": "Headers",
	"proxy": "Proxy_URL", "http_proxy": "Proxy_URL", "https_proxy": "Proxy_URL",
	"http2_enabled": "HTTP2", "enable_http2": "HTTP2", "http_version": "HTTP2",
	"compression": "Compress", "compress_type": "Compress", "gzip": "Compress", "content_encoding": "Compress",
	"webhook_mode": "Mode", "delivery_mode": "Mode",
	"batch_size": "Batch_Max_Size", "max_batch_size": "Batch_Max_Size", "batch_max_events": "Batch_Max_Size", "batch_max_count": "Batch_Max_Size",
	"batch_bytes": "Batch_Max_Bytes", "max_batch_bytes": "Batch_Max_Bytes", "batch_size_bytes": "Batch_Max_Bytes", "batch_max_size_bytes": "Batch_Max_Bytes",
	"max_body_size": "Batch_Max_Bytes", "max_request_bytes": "Batch_Max_Bytes",
	"batch_wait": "Batch_Max_Wait", "max_batch_wait": "Batch_Max_Wait", "batch_timeout": "Batch_Max_Wait", "batch_interval": "Batch_Max_Wait", "linger": "Batch_Max_Wait",
	"buffer_size": "Batch_Buffer_Size", "buffer_max_size": "Batch_Buffer_Size", "queue_size": "Batch_Buffer_Size", "buffer_bytes": "Batch_Buffer_Bytes",
	"throttle_enable": "Batch_Throttle_Enable", "batch_throttle": "Batch_Throttle_Enable", "batch_throttle_enabled": "Batch_Throttle_Enable",
	"throttle_qps": "Batch_Throttle_QPS", "qps": "Batch_Throttle_QPS", "rate_limit": "Batch_Throttle_QPS",
	"throttle_burst": "Batch_Throttle_Burst", "burst": "Batch_Throttle_Burst",
	"concurrency": "Max_Concurrent_Requests", "max_concurrency": "Max_Concurrent_Requests", "max_concurrent": "Max_Concurrent_Requests",
	"max_requests": "Max_Concurrent_Requests", "max_connections": "Max_Concurrent_Requests",
	"backoff": "Initial_Backoff", "min_backoff": "Initial_Backoff", "retry_backoff": "Initial_Backoff", "retry_interval": "Initial_Backoff",
	"backoff_max": "Max_Backoff", "max_retry_interval": "Max_Backoff",
	"timeout": "Request_Timeout", "http_timeout": "Request_Timeout", "response_timeout": "Request_Timeout", "webhook_timeout": "Request_Timeout",
	"drain_time": "Drain_Timeout", "shutdown_timeout": "Drain_Timeout", "exit_timeout": "Drain_Timeout", "stop_timeout": "Drain_Timeout",
	"flush_time": "Flush_Timeout", "message_key": "Log_Key", "raw_log_key": "Log_Key", "raw_key": "Log_Key",
	"restore_time": "Restore_Timestamp", "restore_timestamps": "Restore_Timestamp",
	"dedup_window": "Duplicate_Window", "dedupe_window": "Duplicate_Window", "duplicates_window": "Duplicate_Window", "deduplication_window": "Duplicate_Window",
	"state_folder": "State_Dir", "state_path": "State_Dir", "statedir": "State_Dir", "state_directory": "State_Dir",
	"instance_name": "Instance", "instance_id": "Instance",
	"loglevel": "Plugin_Log_Level", "plugin_loglevel": "Plugin_Log_Level", "verbosity": "Plugin_Log_Level", "debug": "Plugin_Log_Level",
}

// flagPrefix begins kube-apiserver's flags; keys are named after what follows.
const flagPrefix = "--audit-webhook-"

// flagsWithoutKey are kube-apiserver's flags for its webhook (k8s.io/apiserver,
// pkg/server/options/audit.go) that have no key here, and why.
var flagsWithoutKey = map[string]string{
	"--audit-webhook-version":                 "events are sent as audit.k8s.io/v1, which is what that flag allows; leave it out",
	"--audit-webhook-truncate-max-batch-size": "use Batch_Max_Bytes",
}

// misspelt returns a fault for each key in the section that is a wrong spelling of
// one that exists. Values are not shown: they may be passwords. It asks for some
// thousand names, once, at the start.
func misspelt(get func(key string) string) (faults []error) {
	for _, w := range wrongSpellings() {
		if strings.TrimSpace(get(w.name)) != "" {
			faults = append(faults, fmt.Errorf("%s: there is no such key: %s", w.name, w.remedy))
		}
	}
	return faults
}

// wrongSpelling is a name that is not a key.
type wrongSpelling struct{ name, remedy string }

// wrongSpellings are all names that misspelt asks for, each once and none of them a
// key, from the likeliest to those that a slip of the finger makes.
func wrongSpellings() (all []wrongSpelling) {
	// Fluent Bit ignores the case of letters.
	seen := map[string]bool{}
	for _, k := range keys {
		seen[strings.ToLower(k.name)] = true
	}
	for _, name := range fluentBitsOwn {
		seen[name] = true
	}
	add := func(remedy string, names ...string) {
		for _, name := range names {
			if name = strings.ToLower(name); name != "" && !seen[name] {
				seen[name] = true
				all = append(all, wrongSpelling{name, remedy})
			}
		}
	}
	for _, k := range keys {
		remedy := "write " + k.name
		add(remedy, spellings(k.name)...)
		if k.flag != "" {
			add(remedy, flagSpellings(k.flag)...)
		}
	}
	for _, flag := range sorted(flagsWithoutKey) {
		add(flagsWithoutKey[flag], flagSpellings(flag)...)
	}
	for _, name := range sorted(elsewhere) {
		add("write "+elsewhere[name], spellings(name)...)
	}
	for _, k := range keys {
		add("write "+k.name, slips(k.name)...)
	}
	return all
}

// fluentBitsOwn are keys that may stand in every [OUTPUT] section. Most never reach a
// plugin (flb_output_set_property), so to ask for them would be in vain.
var fluentBitsOwn = []string{
	"name", "match", "match_regex", "alias", "log_level", "log_suppress_interval", "host", "port", "ipv6", "retry_limit", "workers", "tls",
	"storage.total_limit_size", "processors",
}

// spellings of a name with underscores: by itself, with hyphens, with dots, with
// nothing between the words.
func spellings(name string) []string {
	var all []string
	for _, separator := range []string{"_", "-", ".", ""} {
		all = append(all, strings.ReplaceAll(name, "_", separator))
	}
	if rest, ok := strings.CutPrefix(name, "tls_"); ok {
		// Fluent Bit's own, for outputs in C. It never reaches a plugin, but whoever
		// reads the file itself finds it.
		all = append(all, "tls."+rest)
	}
	return all
}

// flagSpellings are those of a flag of kube-apiserver, with and without its dashes and
// its prefix.
func flagSpellings(flag string) []string {
	all := []string{flag}
	for _, prefix := range []string{"--", "--audit-", flagPrefix} {
		all = append(all, spellings(strings.ReplaceAll(strings.TrimPrefix(flag, prefix), "-", "_"))...)
	}
	return all
}

// slips are the names that one slip of a finger makes: a letter left out, doubled,
// or in the place of its neighbour. Names of four letters and less are left alone,
// they would be too many other words.
func slips(name string) (all []string) {
	if len(name) <= 4 {
		return nil
	}
	for i := range len(name) {
		all = append(all, name[:i]+name[i+1:], name[:i+1]+name[i:])
		if i > 0 {
			all = append(all, name[:i-1]+string(name[i])+string(name[i-1])+name[i+1:])
		}
	}
	return all
}

func sorted(m map[string]string) []string { return slices.Sorted(maps.Keys(m)) }
