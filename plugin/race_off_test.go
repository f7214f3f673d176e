//go:build !race

package plugin

const underRace = false
