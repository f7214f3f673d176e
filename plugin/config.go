// This file is the table of the plugin's keys. It feeds the parser, the line
// with the settings at start and the table of keys in the documentation.

package plugin

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"out_k8saudit/batch"
	"out_k8saudit/batch/webhook"
)

// Mode says what OK means, as --audit-webhook-mode does for an API server.
type Mode string

const (
	// ModeBlocking answers OK when every event of a chunk has been accepted.
	ModeBlocking Mode = "blocking"
	// ModeBatch answers OK when every event of a chunk is in the buffer.
	ModeBatch Mode = "batch"
)

// Config is what the keys of one [OUTPUT] section say.
type Config struct {
	Webhook webhook.Config
	Batch   batch.Config

	Mode             Mode
	FlushTimeout     time.Duration
	DrainTimeout     time.Duration
	LogKey           string
	RestoreTimestamp bool
	Truncate         bool
	TruncateAbove    int // bytes of an event
	Instance         string
	DuplicateWindow  int    // events
	DeadLetterDir    string // "": none
	StateDir         string // "": none
	LogLevel         slog.Level
}

// key is one key of an [OUTPUT] section.
type key struct {
	name string
	def  string // the default, as a configuration file would have it
	flag string // kube-apiserver's of the same meaning
	help string // one sentence, for the documentation
	note string // in the documentation, in place of a default
	set  func(c *Config, value string) error
	// shown is the value for a log line, where the value itself may hold a secret.
	shown func(value string) string
}

// show is the value as a log line may show it.
func (k *key) show(value string) string {
	if k.shown == nil {
		return value
	}
	return k.shown(value)
}

// keys is in the order of the documentation.
var keys = []key{
	{name: "Webhook_Config_File", flag: "--audit-webhook-config-file", note: "this or `URL`",
		help: "Kubeconfig that names the webhook, certificates, credentials and proxy.",
		set:  func(c *Config, v string) error { c.Webhook.ConfigFile = v; return nil }},
	{name: "URL", note: "this or `Webhook_Config_File`",
		help:  "Where the events are posted: `http` or `https`, path and query exactly as written.",
		set:   func(c *Config, v string) error { c.Webhook.URL = v; return nil },
		shown: redactURL},
	{name: "CA_File",
		help: "PEM file with the certificates that may sign the webhook's. Without it: the system's.",
		set:  func(c *Config, v string) error { c.Webhook.CAFile = v; return nil }},
	{name: "Cert_File",
		help: "PEM file with the client certificate.",
		set:  func(c *Config, v string) error { c.Webhook.CertFile = v; return nil }},
	{name: "Key_File",
		help: "PEM file with the client certificate's key.",
		set:  func(c *Config, v string) error { c.Webhook.KeyFile = v; return nil }},
	{name: "Server_Name",
		help: "Name to expect in the webhook's certificate instead of the URL's host.",
		set:  func(c *Config, v string) error { c.Webhook.ServerName = v; return nil }},
	{name: "Insecure_Skip_Verify", def: "Off",
		help: "`On` accepts any certificate of the webhook.",
		set:  func(c *Config, v string) error { return setBool(&c.Webhook.InsecureSkipVerify, v) }},
	{name: "Bearer_Token_File",
		help: "File with the bearer token; read again every minute and after a 401.",
		set:  func(c *Config, v string) error { c.Webhook.BearerTokenFile = v; return nil }},
	{name: "HTTP_User",
		help: "User name for basic authentication.",
		set:  func(c *Config, v string) error { c.Webhook.Username = v; return nil }},
	{name: "HTTP_Passwd",
		help:  "Password for basic authentication.",
		set:   func(c *Config, v string) error { c.Webhook.Password = v; return nil },
		shown: hidden},
	{name: "Headers",
		help:  "Headers to add to each request, as `Name: value` or `Name value`, with a vertical bar between two (see below).",
		set:   func(c *Config, v string) error { return setHeaders(&c.Webhook.Headers, v) },
		shown: headerNames},
	{name: "Proxy_URL",
		help:  "Proxy for all requests: `http`, `https` or `socks5`. Without it: `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY` of the environment.",
		set:   func(c *Config, v string) error { c.Webhook.ProxyURL = v; return nil },
		shown: redactURL},
	{name: "HTTP2", def: "Off",
		help: "`On` offers HTTP/2 to an `https` webhook. All requests then share a connection.",
		set:  func(c *Config, v string) error { return setBool(&c.Webhook.HTTP2, v) }},
	{name: "Compress", def: "none",
		help: "`gzip` compresses the bodies; the receiver has to support it. Or `none`.",
		set:  func(c *Config, v string) error { return setCompress(&c.Webhook.Gzip, v) }},

	{name: "Mode", def: string(ModeBlocking), flag: "--audit-webhook-mode",
		help: "`blocking`: a chunk is done when the webhook has accepted each of its events. `batch`: when they are in the buffer, which a crash loses.",
		set:  func(c *Config, v string) error { return setMode(&c.Mode, v) }},
	{name: "Batch_Max_Size", def: "2000", flag: "--audit-webhook-batch-max-size",
		help: "Events in one request at most.",
		set:  func(c *Config, v string) error { return setInt(&c.Batch.MaxSize, v, 1, 1e6) }},
	{name: "Batch_Max_Bytes", def: "1M",
		help: "Bytes of one request's body at most. An event larger than that goes alone.",
		set:  func(c *Config, v string) error { return setSize(&c.Batch.MaxBytes, v, 1<<10, 1<<30) }},
	{name: "Batch_Max_Wait", def: "1s", flag: "--audit-webhook-batch-max-wait",
		help: "How long events wait for others to share a request with; mode batch only.",
		set:  func(c *Config, v string) error { return setDuration(&c.Batch.MaxWait, v, time.Millisecond, time.Hour) }},
	{name: "Batch_Buffer_Size", def: "100000", flag: "--audit-webhook-batch-buffer-size",
		help: "Events in memory at most.",
		set:  func(c *Config, v string) error { return setInt(&c.Batch.BufferSize, v, 1, 1e9) }},
	{name: "Batch_Buffer_Bytes", def: "64M",
		help: "Bytes of events in memory at most. A larger event is taken when nothing else is there.",
		set:  func(c *Config, v string) error { return setSize(&c.Batch.BufferBytes, v, 1<<10, 1<<40) }},
	{name: "Batch_Throttle_Enable", def: "Off", flag: "--audit-webhook-batch-throttle-enable",
		help: "`On` bounds the rate of requests.",
		set:  func(c *Config, v string) error { return setBool(&c.Batch.ThrottleEnable, v) }},
	{name: "Batch_Throttle_QPS", def: "10", flag: "--audit-webhook-batch-throttle-qps",
		help: "Requests a second on average.",
		set:  func(c *Config, v string) error { return setRate(&c.Batch.ThrottleQPS, v) }},
	{name: "Batch_Throttle_Burst", def: "15", flag: "--audit-webhook-batch-throttle-burst",
		help: "Requests at once that the average may be exceeded by.",
		set:  func(c *Config, v string) error { return setInt(&c.Batch.ThrottleBurst, v, 1, 1e6) }},
	{name: "Max_Concurrent_Requests", def: "4",
		help: "Requests under way at once.",
		set:  func(c *Config, v string) error { return setInt(&c.Batch.MaxConcurrentRequests, v, 1, 1000) }},
	{name: "Initial_Backoff", def: "1s", flag: "--audit-webhook-initial-backoff",
		help: "Wait before a failed request is tried again; doubled each time.",
		set: func(c *Config, v string) error {
			return setDuration(&c.Batch.InitialBackoff, v, 10*time.Millisecond, time.Hour)
		}},
	{name: "Max_Backoff", def: "30s",
		help: "Longest wait between two tries, also when the webhook asks for longer with Retry-After.",
		set: func(c *Config, v string) error {
			return setDuration(&c.Batch.MaxBackoff, v, 10*time.Millisecond, 24*time.Hour)
		}},

	{name: "Request_Timeout", def: "30s",
		help: "Bound on one request, from the connection to the end of the answer.",
		set: func(c *Config, v string) error {
			return setDuration(&c.Webhook.RequestTimeout, v, 100*time.Millisecond, time.Hour)
		}},
	{name: "Flush_Timeout", def: "4s",
		help: "How long Fluent Bit waits for a chunk before it gets RETRY and delivery goes on behind its back. Keep it below `Grace`.",
		set: func(c *Config, v string) error {
			return setDuration(&c.FlushTimeout, v, 100*time.Millisecond, time.Hour)
		}},
	{name: "Drain_Timeout", def: "10s",
		help: "How long the end waits for what was taken. Keep `Grace` + `Flush_Timeout` + `Drain_Timeout` below the time that the process is given to stop.",
		set: func(c *Config, v string) error {
			return setDuration(&c.DrainTimeout, v, 0, time.Hour)
		}},

	{name: "Truncate_Enabled", def: "Off", flag: "--audit-webhook-truncate-enabled",
		help: "`On` takes request and response object out of events that are too large, and marks them with the annotation `audit.k8s.io/truncated`.",
		set:  func(c *Config, v string) error { return setBool(&c.Truncate, v) }},
	{name: "Truncate_Max_Event_Size", def: "102400", flag: "--audit-webhook-truncate-max-event-size",
		help: "Bytes of an event, as its line in the audit log, above which it is truncated.",
		set:  func(c *Config, v string) error { return setSize(&c.TruncateAbove, v, 1, 1<<30) }},
	{name: "Log_Key", def: "log",
		help: "Key of a record that holds the raw line.",
		set:  func(c *Config, v string) error { c.LogKey = v; return nil }},
	{name: "Restore_Timestamp", def: "On",
		help: "`On` puts the timestamp back that a parser took out of the event as its time key.",
		set:  func(c *Config, v string) error { return setBool(&c.RestoreTimestamp, v) }},
	{name: "Duplicate_Window", def: "1000000",
		help: "Events that are remembered as delivered, so that what is read or sent again goes out once; about 20 bytes of memory each. Half of them at least, and each for a minute.",
		set:  func(c *Config, v string) error { return setInt(&c.DuplicateWindow, v, 10_000, 1e8) }},
	{name: "Instance",
		help: "Name of this output in log lines, and of what it remembers: with it, another URL goes on where this one ended. Without it: its number and the URL's host.",
		set:  func(c *Config, v string) error { c.Instance = v; return nil }},
	{name: "Dead_Letter_Dir",
		help: "Folder for what cannot be delivered: `rejected.log`, what the webhook refuses for good; `undelivered-*.log`, what mode batch still held at the end, sent at the next start; `skipped.log`, what is no audit event. Made if it is missing.",
		set:  func(c *Config, v string) error { return setFolder(&c.DeadLetterDir, v) }},
	{name: "State_Dir",
		help: "Folder for what `Duplicate_Window` remembers, so that a restart, or a kill, sends nothing again. Without it a restart does. Made if it is missing; for one process at a time.",
		set:  func(c *Config, v string) error { return setFolder(&c.StateDir, v) }},
	{name: "Plugin_Log_Level", def: "info",
		help: "`off`, `error`, `warn`, `info` or `debug`. Fluent Bit keeps its own `Log_Level` for itself.",
		set:  func(c *Config, v string) error { return setLevel(&c.LogLevel, v) }},
}

// ParseConfig reads the keys of one [OUTPUT] section. get returns the value of a
// key, whatever the case of its letters, "" if it is not set. The error names
// every fault at once: the key, its value and what would be right. The Config
// is then of use for finding more faults, and for nothing else. What belongs to
// the Webhook alone is checked by webhook.New.
func ParseConfig(get func(key string) string) (*Config, error) {
	c := &Config{}
	faults := misspelt(get)
	wrong := 0 // values
	for _, k := range keys {
		value := strings.TrimSpace(get(k.name))
		if value == "" {
			value = k.def
		}
		if value == "" {
			continue
		}
		if err := k.set(c, value); err != nil {
			wrong++
			faults = append(faults, fmt.Errorf("%s %q: %w", k.name, k.show(value), err))
			if k.def != "" {
				_ = k.set(c, k.def) // so that what is checked later has no faults of its own
			}
		}
	}
	if wrong == 0 {
		faults = append(faults, c.checkTogether()...)
	}
	c.Webhook.MaxConcurrentRequests = c.Batch.MaxConcurrentRequests
	c.Webhook.MaxBodyBytes = c.Batch.MaxBytes
	c.Batch.SlowAfter = c.FlushTimeout
	return c, errors.Join(faults...)
}

// checkTogether finds values that are right by themselves and do not go
// together.
func (c *Config) checkTogether() (faults []error) {
	if c.Batch.MaxBackoff < c.Batch.InitialBackoff {
		faults = append(faults, fmt.Errorf("Max_Backoff %v: it is below Initial_Backoff %v; make it at least that", c.Batch.MaxBackoff, c.Batch.InitialBackoff))
	}
	if c.Batch.BufferSize < c.Batch.MaxSize {
		faults = append(faults, fmt.Errorf("Batch_Buffer_Size %d: it is below Batch_Max_Size %d; make it at least that", c.Batch.BufferSize, c.Batch.MaxSize))
	}
	if c.Batch.BufferBytes < c.Batch.MaxBytes {
		faults = append(faults, fmt.Errorf("Batch_Buffer_Bytes %d: it is below Batch_Max_Bytes %d; make it at least that", c.Batch.BufferBytes, c.Batch.MaxBytes))
	}
	return faults
}

// settings is the effective configuration in one line, without secrets.
func settings(get func(key string) string) string {
	var b strings.Builder
	for _, k := range keys {
		value := strings.TrimSpace(get(k.name))
		if value == "" {
			value = k.def
		}
		if value == "" {
			continue
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s=%s", strings.ToLower(k.name), printable(k.show(value), 200))
	}
	return b.String()
}

// KeyTable is the table of keys for the documentation, in Markdown.
func KeyTable() string {
	var b strings.Builder
	b.WriteString("| key | default | kube-apiserver's flag | |\n|---|---|---|---|\n")
	code := func(s string) string {
		if s == "" {
			return ""
		}
		return "`" + s + "`"
	}
	for _, k := range keys {
		def := code(k.def)
		if k.note != "" {
			def = k.note
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", k.name, def, code(k.flag), k.help)
	}
	return b.String()
}
