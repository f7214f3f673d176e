// This file is what both forms of configuration have in common.

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
)

// output is one section [OUTPUT], or one item of pipeline.outputs.
type output struct {
	where      string // file and line
	properties []property
	notes      []string
}

type property struct{ key, value string }

// set adds a property. Of a key given twice a plugin gets the first.
func (o *output) set(key, value string) {
	if o.has(key) {
		o.notes = append(o.notes, strings.ToLower(key)+" is given twice: the plugin gets the first only")
	}
	o.properties = append(o.properties, property{key, value})
}

func (o *output) has(key string) bool {
	for _, p := range o.properties {
		if strings.EqualFold(p.key, key) {
			return true
		}
	}
	return false
}

// get returns the value of a key, whatever the case of its letters, "" if it is not set.
func (o *output) get(key string) string {
	for _, p := range o.properties {
		if strings.EqualFold(p.key, key) {
			return p.value
		}
	}
	return ""
}

// config is a configuration as it is read.
type config struct {
	outputs []output
	set     map[string]string // @SET, or env
	folder  string            // of the outermost file
	read    map[string]bool   // files, by absolute name
}

// load reads a configuration with all that it includes.
func load(file string) ([]output, error) {
	c := &config{set: map[string]string{}, folder: filepath.Dir(file), read: map[string]bool{}}
	if err := c.readFile(file); err != nil {
		return nil, err
	}
	for i := range c.outputs {
		o := &c.outputs[i]
		for j, p := range o.properties {
			o.properties[j].value = c.expand(o, p)
		}
	}
	return c.outputs, nil
}

// readFile reads one file; its name tells which form it has, as for Fluent Bit.
func (c *config) readFile(file string) error {
	name, err := filepath.Abs(file)
	if err != nil {
		return err
	}
	if c.read[name] {
		return fmt.Errorf("%s is read twice: Fluent Bit reads a file once", file)
	}
	c.read[name] = true
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	switch filepath.Ext(file) {
	case ".yaml", ".yml":
		return c.readYAML(file, b)
	}
	return c.readClassic(file, string(b))
}

// readAll reads the files that a pattern with a * names, or the one without.
func (c *config) readAll(pattern string) error {
	if !strings.Contains(pattern, "*") {
		return c.readFile(pattern)
	}
	files, err := filepath.Glob(pattern)
	if err != nil {
		return fmt.Errorf("%s: %w", pattern, err)
	}
	if len(files) == 0 {
		return fmt.Errorf("%s: no such file, and Fluent Bit wants one", pattern)
	}
	for _, file := range files {
		if err := c.readFile(file); err != nil {
			return err
		}
	}
	return nil
}

// expand replaces each ${NAME} and ${NAME:-default} in a value (flb_env_var_translate).
// The file's own settings go before the environment; what is not set is empty.
func (c *config) expand(o *output, p property) string {
	var b strings.Builder
	rest := p.value
	for {
		before, after, found := strings.Cut(rest, "${")
		name, behind, closed := strings.Cut(after, "}")
		if !found || !closed {
			b.WriteString(rest)
			return b.String()
		}
		b.WriteString(before)
		name, def, hasDefault := strings.Cut(name, ":-")
		value, set := c.set[name]
		if !set {
			value = os.Getenv(name)
			set = value != ""
		}
		switch {
		case value == "" && hasDefault:
			value = def
		case !set:
			o.notes = append(o.notes, fmt.Sprintf("%s: ${%s} is not set here, and so empty", strings.ToLower(p.key), name))
		}
		b.WriteString(value)
		rest = behind
	}
}
