// What a row measures of the memory of a backend.

package batch

// zooPending is how many bytes the events have that are taken and not settled.
func zooPending(b *Backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.pendingBytes
}

// held is how many bytes of memory the backend keeps for them.
func held(b *Backend) int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.held
}
