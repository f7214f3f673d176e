//go:build race

package batch

const zooUnderRace = true
