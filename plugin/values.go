// This file reads the values of keys: what a Fluent Bit user would write, and
// an error that says what would be right. Nothing falls back on a default.

package plugin

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"

	"out_k8saudit/batch/webhook"

	"golang.org/x/sys/unix"
)

func setBool(to *bool, value string) error {
	// The words that Fluent Bit itself knows (flb_utils_bool).
	switch strings.ToLower(value) {
	case "on", "true", "yes":
		*to = true
	case "off", "false", "no":
		*to = false
	default:
		return fmt.Errorf("neither on nor off: write On or Off")
	}
	return nil
}

func setMode(to *Mode, value string) error {
	switch m := Mode(strings.ToLower(value)); m {
	case ModeBlocking, ModeBatch:
		*to = m
		return nil
	case "blocking-strict":
		return fmt.Errorf("there is no stricter mode: blocking already answers for nothing that was not accepted; write blocking")
	}
	return fmt.Errorf("not a mode: write blocking or batch")
}

func setInt(to *int, value string, low, high int) error {
	n, err := strconv.Atoi(value)
	if err != nil {
		return fmt.Errorf("not a whole number: write one from %d to %d", low, high)
	}
	if n < low || n > high {
		return fmt.Errorf("out of bounds: write a number from %d to %d", low, high)
	}
	*to = n
	return nil
}

func setRate(to *float64, value string) error {
	f, err := strconv.ParseFloat(value, 64)
	if err != nil || math.IsNaN(f) || f <= 0 || f > 1e6 {
		return fmt.Errorf("not a rate: write a number above 0, such as 10 or 0.5")
	}
	*to = f
	return nil
}

func setDuration(to *time.Duration, value string, low, high time.Duration) error {
	d, err := time.ParseDuration(value)
	if err != nil {
		seconds, err := strconv.ParseFloat(value, 64)
		if err != nil || math.IsNaN(seconds) || math.Abs(seconds) > 1e9 {
			return fmt.Errorf("not a time: write seconds such as 30, or a duration such as 500ms, 4s, 2m")
		}
		d = time.Duration(seconds * float64(time.Second))
	}
	if d < low || d > high {
		return fmt.Errorf("out of bounds: write a time from %v to %v", low, high)
	}
	*to = d
	return nil
}

// units of a size: Fluent Bit's are decimal, with or without a B
// (flb_utils_size_to_bytes); those with an i are this plugin's own.
var units = map[string]float64{
	"": 1, "b": 1,
	"k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9,
	"ki": 1 << 10, "kib": 1 << 10, "mi": 1 << 20, "mib": 1 << 20, "gi": 1 << 30, "gib": 1 << 30,
}

func setSize(to *int, value string, low, high int) error {
	digits := strings.TrimRight(value, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
	unit, known := units[strings.ToLower(value[len(digits):])]
	n, err := strconv.ParseFloat(strings.TrimSpace(digits), 64)
	if err != nil || !known || math.IsNaN(n) {
		return fmt.Errorf("not a size: write bytes such as 500000, or 500k, 1M, 1G (decimal), 512Ki, 1Mi (binary)")
	}
	bytes := n * unit
	if bytes < float64(low) || bytes > float64(high) {
		return fmt.Errorf("out of bounds: write a size from %d to %d bytes", low, high)
	}
	*to = int(bytes)
	return nil
}

func setCompress(gzip *bool, value string) error {
	switch strings.ToLower(value) {
	case "none":
		*gzip = false
	case "gzip":
		*gzip = true
	default:
		return fmt.Errorf("not a compression: write none or gzip")
	}
	return nil
}

// setHeaders reads headers. Fluent Bit gives a plugin only the first of several
// lines with the same key, so they share one.
func setHeaders(to *[]webhook.Header, value string) error {
	var headers []webhook.Header
	for i, header := range splitHeaders(value) {
		name, value, found := cutHeader(header)
		if !found {
			return fmt.Errorf("header %d has no name and value: write Name: value, with | between two headers and \\| for a | in a value", i+1)
		}
		headers = append(headers, webhook.Header{Name: name, Value: value})
	}
	*to = headers
	return nil
}

// splitHeaders splits at each vertical bar without a backslash before it.
func splitHeaders(value string) (headers []string) {
	var b strings.Builder
	for i := 0; i < len(value); i++ {
		switch {
		case value[i] == '\\' && i+1 < len(value) && value[i+1] == '|':
			i++
			b.WriteByte('|')
		case value[i] == '|':
			headers = append(headers, b.String())
			b.Reset()
		default:
			b.WriteByte(value[i])
		}
	}
	return append(headers, b.String())
}

// cutHeader takes "Name: value", and "Name value" as Fluent Bit's own http
// output has it. A name has neither colon nor space.
func cutHeader(header string) (name, value string, found bool) {
	header = strings.TrimSpace(header)
	i := strings.IndexAny(header, ": \t")
	if i <= 0 {
		return "", "", false
	}
	name, value = header[:i], strings.TrimSpace(header[i:])
	value = strings.TrimSpace(strings.TrimPrefix(value, ":"))
	return name, value, value != ""
}

// levelOff is above every level that is used.
const levelOff = slog.Level(100)

func setLevel(to *slog.Level, value string) error {
	// Fluent Bit's words; it has trace below debug, this plugin has not.
	level, ok := map[string]slog.Level{
		"off": levelOff, "error": slog.LevelError, "warn": slog.LevelWarn, "warning": slog.LevelWarn,
		"info": slog.LevelInfo, "debug": slog.LevelDebug, "trace": slog.LevelDebug,
	}[strings.ToLower(value)]
	if !ok {
		return fmt.Errorf("not a level: write off, error, warn, info or debug")
	}
	*to = level
	return nil
}

// printable is text from outside as it may stand in a log line: no control
// characters, quoted where it needs to be, cut at max bytes.
func printable(s string, limit int) string {
	cut := ""
	if len(s) > limit {
		s, cut = s[:limit], "..."
	}
	quoted := strconv.Quote(s)
	if inner := quoted[1 : len(quoted)-1]; inner == s && !strings.ContainsAny(s, " =") && s != "" {
		return s + cut
	}
	return quoted + cut
}

// setFolder takes a folder in which files can be made, or one that is to be made.
// It makes nothing.
func setFolder(to *string, v string) error {
	info, err := os.Stat(v)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		// made at the start
	case err != nil:
		return err
	case !info.IsDir():
		return errors.New("it is no folder: name one, or one that can be made")
	default:
		if err := unix.Access(v, unix.W_OK|unix.X_OK); err != nil {
			return fmt.Errorf("no file can be made in it (%w): give the user that Fluent Bit runs as the right to", err)
		}
	}
	*to = v
	return nil
}

// makeFolder makes a folder that setFolder has taken, for the user alone. One that is
// there already and that others may write to is refused: what they put there would be
// taken for what was delivered, or sent.
func makeFolder(key, name string) error {
	if name == "" {
		return nil
	}
	err := os.MkdirAll(name, 0o700)
	var info fs.FileInfo
	if err == nil {
		info, err = os.Stat(name)
	}
	if err != nil {
		return fmt.Errorf("%s %q: %w", key, name, err)
	}
	if info.Mode().Perm()&0o022 != 0 {
		return fmt.Errorf("%s %q: others than its owner may write to it: chmod go-w %q", key, name, name)
	}
	if st, ok := info.Sys().(*syscall.Stat_t); ok && st.Uid != 0 && int(st.Uid) != os.Geteuid() {
		return fmt.Errorf("%s %q: it belongs to another user: chown %d %q", key, name, os.Geteuid(), name)
	}
	return nil
}
