// This file reads the classic form, as src/config_format/flb_cf_fluentbit.c of Fluent
// Bit does.

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

func (c *config) readClassic(file, text string) error {
	var o *output // nil outside of [OUTPUT]
	group := 0    // the indent of a group in the section, 0 outside of one
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSuffix(line, "\r")
		where := fmt.Sprintf("%s:%d", file, i+1)
		content := strings.TrimLeft(line, " \t")
		indent := len(line) - len(content)
		if group > 0 && indent > group {
			continue // the group's own, such as processors
		}
		switch {
		case content == "" || content[0] == '#':
		case line[0] == '@':
			if err := c.command(line); err != nil {
				return fmt.Errorf("%s: %w", where, err)
			}
		case line[0] == '[':
			name, _, closed := strings.Cut(line[1:], "]")
			if !closed {
				return fmt.Errorf("%s: a section without its ]", where)
			}
			o, group = nil, 0
			if strings.EqualFold(name, "output") || strings.EqualFold(name, "outputs") {
				c.outputs = append(c.outputs, output{where: where})
				o = &c.outputs[len(c.outputs)-1]
			}
		case indent == 0:
			return fmt.Errorf("%s: %q is not indented: Fluent Bit wants the keys of a section so", where, firstWord(line))
		case content[0] == '[':
			group = indent
		default:
			group = 0
			key, value, _ := strings.Cut(content, " ")
			key, value = strings.TrimSpace(key), strings.TrimSpace(value)
			if value == "" {
				return fmt.Errorf("%s: %s has no value behind a space: Fluent Bit does not start", where, firstWord(key))
			}
			if o != nil {
				o.set(key, value)
			}
		}
	}
	return nil
}

// firstWord leaves out what may be a password.
func firstWord(line string) string {
	word, _, _ := strings.Cut(strings.ReplaceAll(line, "\t", " "), " ")
	return word
}

// command follows a line that begins with @.
func (c *config) command(line string) error {
	name, rest, _ := strings.Cut(line, " ")
	rest = strings.TrimSpace(rest)
	switch strings.ToUpper(name) {
	case "@INCLUDE":
		// Relative to the working directory if it is there, else to the outermost
		// file; patterns to the latter only.
		if !filepath.IsAbs(rest) {
			if _, err := os.Stat(rest); err != nil || strings.Contains(rest, "*") {
				rest = filepath.Join(c.folder, rest)
			}
		}
		return c.readAll(rest)
	case "@SET":
		key, value, found := strings.Cut(rest, "=")
		if !found {
			return errors.New("@SET without a =")
		}
		c.set[strings.TrimSpace(key)] = strings.TrimSpace(value)
	}
	return nil
}
