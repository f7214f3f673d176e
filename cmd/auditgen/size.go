// This file reads sizes given as flags.

package main

import (
	"errors"
	"strconv"
	"strings"
)

var errNotASize = errors.New("not a size: write bytes, or 500k, 100M, 1G (decimal), 512Ki, 10Mi, 1Gi (binary)")

// size is a number of bytes as a flag.
type size int

func (s *size) String() string { return strconv.Itoa(int(*s)) }

// Set refuses negative sizes and those beyond a terabyte.
func (s *size) Set(text string) error {
	digits := strings.TrimRight(text, "kKMGi")
	unit, known := map[string]int{
		"": 1, "k": 1e3, "M": 1e6, "G": 1e9, "Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30,
	}[text[len(digits):]]
	n, err := strconv.Atoi(digits)
	if err != nil || !known || n < 0 || n > 1e12/unit {
		return errNotASize
	}
	*s = size(n * unit)
	return nil
}
