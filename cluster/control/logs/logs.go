package logs

import (
	"container/list"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/phos-gpu/phos/cluster/linelog"
)

// How much is kept.
const (
	// attemptBytes is the most of one attempt.
	attemptBytes = 1 << 20
	// totalBytes is the most of all.
	totalBytes = 1 << 30
)

// Attempt names an attempt whose log is kept. The leader knows its launch.
type Attempt struct {
	Launch           string
	Replica, Attempt int
}

// name returns the name of the attempt's directory.
func (a Attempt) name() string { return fmt.Sprintf("%s.%d.%d", a.Launch, a.Replica, a.Attempt) }

// Store is a directory with the ends of logs.
type Store struct {
	dir   string
	limit int64

	mu    sync.Mutex
	all   map[string]*end
	order *list.List // the names of all, that which has grown last at the end
	size  int64
}

// end is the end of one log.
type end struct {
	place *list.Element // in the order
	bytes int64
	grown time.Time
	node  string // that sends it; empty after a start of the controller
}

// NewStore returns the store in a directory, which it creates.
func NewStore(dir string) (*Store, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("store of logs: %w", err)
	}
	s := &Store{dir: dir, limit: totalBytes, all: map[string]*end{}, order: list.New()}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		s.grow(filepath.Base(filepath.Dir(path)), info.Size(), info.ModTime())
		return nil
	})
	if err != nil {
		return nil, fmt.Errorf("store of logs: %w", err)
	}
	byAge := func(a, b string) int { return s.all[a].grown.Compare(s.all[b].grown) }
	for _, name := range slices.SortedFunc(maps.Keys(s.all), byAge) {
		s.order.MoveToBack(s.all[name].place)
	}
	return s, nil
}

// grow notes that a log has grown.
func (s *Store) grow(name string, bytes int64, at time.Time) {
	known := s.all[name]
	if known == nil {
		known = &end{place: s.order.PushBack(name)}
		s.all[name] = known
	}
	s.order.MoveToBack(known.place)
	before := known.bytes
	known.bytes = min(before+bytes, attemptBytes)
	s.size += known.bytes - before
	if at.After(known.grown) {
		known.grown = at
	}
}

// Comes reports whether a node has sent a part of an attempt's log before.
func (s *Store) Comes(of Attempt, node string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[of.name()]
	return known != nil && known.node == node
}

// Append keeps records of an attempt's log that begin at an offset, and returns the offset of what
// should come next. The attempt has run on the node.
func (s *Store) Append(of Attempt, node string, offset int64, records []byte) (next int64, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	next, err = linelog.Mirror(filepath.Join(s.dir, of.name()), offset, records, attemptBytes)
	if err != nil {
		return next, err
	}
	s.grow(of.name(), int64(len(records)), time.Now())
	s.all[of.name()].node = node
	for s.size > s.limit && len(s.all) > 1 {
		s.remove(s.order.Front().Value.(string)) //nolint:forcetypeassert // the list has no other values
	}
	return next, nil
}

// remove removes a log. What cannot be removed does not count any more, and the next start of the
// controller finds it.
func (s *Store) remove(name string) {
	_ = os.RemoveAll(filepath.Join(s.dir, name))
	known := s.all[name]
	s.size -= known.bytes
	s.order.Remove(known.place)
	delete(s.all, name)
}

// Forget removes the logs of a launch.
func (s *Store) Forget(launchID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name := range s.all {
		if strings.HasPrefix(name, launchID+".") {
			s.remove(name)
		}
	}
}

// ErrNone means that nothing is kept of a log.
var ErrNone = errors.New("nothing is kept of the log")

// Open opens what is kept of an attempt's log, and says when it grew last.
func (s *Store) Open(of Attempt) (r *linelog.Reader, grown time.Time, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	known := s.all[of.name()]
	if known == nil {
		return nil, time.Time{}, ErrNone
	}
	return linelog.Open(filepath.Join(s.dir, of.name()), linelog.Position{}), known.grown, nil
}
