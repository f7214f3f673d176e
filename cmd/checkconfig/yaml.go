// This file reads the YAML form, as src/config_format/flb_cf_yaml.c of Fluent Bit does.

package main

import (
	"fmt"
	"path/filepath"
	"strings"
	"unicode"

	"go.yaml.in/yaml/v3"
)

func (c *config) readYAML(file string, text []byte) error {
	var document yaml.Node
	if err := yaml.Unmarshal(text, &document); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if len(document.Content) == 0 {
		return nil
	}
	root := document.Content[0]
	for _, included := range value(root, "includes").Content {
		pattern := included.Value
		if !filepath.IsAbs(pattern) {
			pattern = filepath.Join(filepath.Dir(file), pattern)
		}
		if err := c.readAll(pattern); err != nil {
			return fmt.Errorf("%s:%d: %w", file, included.Line, err)
		}
	}
	for name, v := range pairs(value(root, "env")) {
		// A map there has its value under value, or gets it from a file.
		if v.Kind == yaml.MappingNode {
			v = value(v, "value")
		}
		c.set[name.Value] = v.Value
	}
	for _, item := range value(value(root, "pipeline"), "outputs").Content {
		o := output{where: fmt.Sprintf("%s:%d", file, item.Line)}
		for key, v := range pairs(item) {
			switch v.Kind {
			case yaml.ScalarNode:
				// The text as it stands there: to Fluent Bit all values are strings.
				o.set(snakeCase(key.Value), v.Value)
			case yaml.SequenceNode:
				for _, element := range v.Content {
					o.set(snakeCase(key.Value), element.Value)
				}
			}
		}
		c.outputs = append(c.outputs, o)
	}
	return nil
}

// value is what a map has under key, an empty node if it has nothing or is no map.
func value(m *yaml.Node, key string) *yaml.Node {
	for k, v := range pairs(m) {
		if strings.EqualFold(k.Value, key) {
			return v
		}
	}
	return &yaml.Node{}
}

// pairs are the keys and values of a map.
func pairs(m *yaml.Node) func(yield func(key, value *yaml.Node) bool) {
	return func(yield func(key, value *yaml.Node) bool) {
		if m.Kind != yaml.MappingNode {
			return
		}
		for i := 0; i+1 < len(m.Content); i += 2 {
			if !yield(m.Content[i], m.Content[i+1]) {
				return
			}
		}
	}
}

// snakeCase makes batch_max_size of batchMaxSize, as Fluent Bit does with the keys of
// this form (flb_cf_key_translate).
func snakeCase(key string) string {
	if key == "" || !unicode.IsLower(rune(key[0])) || strings.Contains(key, "_") {
		return key
	}
	var b strings.Builder
	for _, r := range key {
		if unicode.IsUpper(r) {
			b.WriteByte('_')
			r = unicode.ToLower(r)
		}
		b.WriteRune(r)
	}
	return b.String()
}
