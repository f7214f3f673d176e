// This file is the file that an instance leaves for the next process: which chunks
// Fluent Bit may send again although their events, or some of them, were accepted.

package plugin

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/minio/highwayhash"
)

// stateKept is how long after it was written such a file is used.
const stateKept = time.Hour

// stateHead begins the first line of a state file; the SHA-256 of what follows
// that line ends it.
const stateHead = "out_k8saudit state 1 "

// state is the content of a state file.
type state struct {
	Version string // of the plugin: what counts as an event may change
	Written time.Time
	Key     []byte // of the hashes
	Chunks  []stateChunk
}

// stateChunk is one chunk. Each is used once.
type stateChunk struct {
	Tag  string
	Size int
	Sum  []byte
	Todo []span // the events that were not accepted; none: the chunk is done
}

// stateID names what a state file is for: the same destination, read in the same
// way.
func (in *Instance) stateID() string {
	sum := sha256.Sum256(fmt.Appendf(nil, "%q %q %q", in.client.Destination(), in.cfg.Mode, in.cfg.LogKey))
	return hex.EncodeToString(sum[:8])
}

// stateFiles are the state files for in, in the order in which they were left.
func (in *Instance) stateFiles() []string {
	files, _ := filepath.Glob(filepath.Join(in.cfg.StateDir, "claims-"+in.stateID()+"-*.state"))
	slices.Sort(files)
	return files
}

// todo is what is left to do of a delivery that does not go on here.
func (in *Instance) todo(d *delivery) (spans []span) {
	if d.events != nil {
		for _, ev := range in.undelivered[d.events] {
			spans = append(spans, span{ev.First, ev.First + ev.Len()})
		}
	}
	if !d.taken {
		spans = append(spans, onwards(d.todo, d.index)...)
	}
	return joined(spans)
}

// saveState writes what is worth remembering. A failure is logged: it may cost
// duplicates, and no event.
func (in *Instance) saveState() {
	s := state{Version: in.process.Version, Written: time.Now(), Key: in.claims.key[:]}
	for _, d := range in.claims.all() {
		todo := in.todo(d)
		if d.isExpired() || slices.Equal(todo, []span{{0, toEnd}}) {
			continue
		}
		s.Chunks = append(s.Chunks, stateChunk{d.shape.tag, d.shape.size, d.sum[:], todo})
	}
	if len(s.Chunks) == 0 {
		return
	}
	if err := in.writeState(s); err != nil {
		in.log.Error("the state could not be written: what was accepted of the chunks that Fluent Bit still has is sent again", "error", err, "chunks", len(s.Chunks))
	}
}

func (in *Instance) writeState(s state) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	sum := sha256.Sum256(text)
	f, err := os.CreateTemp(in.cfg.StateDir, ".state-*") // mode 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // in vain once it is linked and gone
	defer f.Close()
	if _, err := fmt.Fprintf(f, "%s%x\n%s", stateHead, sum, text); err != nil {
		return err
	}
	if err := f.Sync(); err != nil {
		return err
	}
	// Two outputs with one destination leave two files; link refuses a name that is
	// taken.
	for n := range 1000 {
		err = os.Link(f.Name(), filepath.Join(in.cfg.StateDir, fmt.Sprintf("claims-%s-%03d.state", in.stateID(), n)))
		if !errors.Is(err, fs.ErrExist) {
			break
		}
	}
	if err != nil {
		return err
	}
	dir, err := os.Open(in.cfg.StateDir)
	if err != nil {
		return err
	}
	defer dir.Close()
	return dir.Sync()
}

// loadState takes up the first state file that was left for this instance: it is
// removed, since each entry is to be used once. One that is damaged, or not the
// plugin's, is put aside with a warning.
func (in *Instance) loadState() {
	for _, file := range in.stateFiles() {
		s, err := readState(file)
		if err != nil {
			in.log.Warn("a state file is not used: what was accepted of the chunks that Fluent Bit still has is sent again", "file", file, "error", err)
			if err := os.Rename(file, file+".damaged"); err != nil {
				in.log.Warn("it could not be renamed", "error", err)
			}
			continue
		}
		if err := os.Remove(file); err != nil {
			in.log.Warn("a state file is not used, since it could not be removed", "error", err)
			continue
		}
		if age := time.Since(s.Written); age >= stateKept || age < -stateKept {
			in.log.Info("a state file is too old to be used", "file", file, "age", age.Round(time.Second))
			continue
		}
		in.claims = claimsOf(s, in.process.Version)
		return
	}
}

func readState(file string) (s state, err error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return s, err
	}
	head, rest, _ := bytes.Cut(text, []byte("\n"))
	want, ok := strings.CutPrefix(string(head), stateHead)
	if !ok {
		return s, errors.New("it does not begin as a state file")
	}
	if sum := sha256.Sum256(rest); want != hex.EncodeToString(sum[:]) {
		return s, errors.New("it is damaged: its checksum is wrong")
	}
	if err := json.Unmarshal(rest, &s); err != nil {
		return s, err
	}
	if len(s.Key) != len(claims{}.key) {
		return s, errors.New("it has no key")
	}
	return s, nil
}

// claimsOf are the claims that a state file holds.
func claimsOf(s state, version string) *claims {
	c := newClaims()
	copy(c.key[:], s.Key)
	for _, chunk := range s.Chunks {
		d := &delivery{
			some: true, taken: len(chunk.Todo) == 0, todo: chunk.Todo,
			shape: shape{chunk.Tag, chunk.Size}, summed: true, expires: s.Written.Add(stateKept),
		}
		if len(chunk.Sum) != highwayhash.Size128 || !d.taken && s.Version != version {
			continue // by another version's count the events may be other ones
		}
		copy(d.sum[:], chunk.Sum)
		c.mu.Lock()
		c.addLocked(d)
		c.mu.Unlock()
	}
	return c
}
