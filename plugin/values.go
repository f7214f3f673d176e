// This file reads the values of keys: what a Fluent Bit user would write, and
// an error that says what would be right. Nothing falls back on a default.

package plugin

import (
	"fmt"
	"log/slog"
	"math"
	"strconv"
	"strings"
	"time"
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
