//go:build race

package plugin

// underRace says that the race detector is on, under which sync.Pool drops things at
// random and whose own allocations count.
const underRace = true
