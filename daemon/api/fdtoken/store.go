package fdtoken

import (
	"crypto/rand"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/daemon/api"
)

// keepTime is how long a token is valid.
const keepTime = 30 * time.Second

// TokenBytes is the length of a token.
const TokenBytes = 32

// ErrToken is returned for a token that is wrong, used, expired or another caller's.
var ErrToken = fmt.Errorf("%w: no files were handed off with this token", api.ErrInvalid)

// ErrTooMany is returned when a handoff exceeds the limits.
var ErrTooMany = fmt.Errorf("%w: too many files handed off", api.ErrExhausted)

// Limits bound what a Store holds.
type Limits struct {
	// Files is the maximum number of files for one token.
	Files int
	// Tokens is the maximum number of unused tokens for one user.
	Tokens int
	// UserFiles is the maximum number of files of all unused tokens of one user; 0: any number.
	UserFiles int
	// ExceptRoot means that root may have any number of unused tokens.
	ExceptRoot bool
}

// Store holds files that were handed off until they are taken.
type Store struct {
	limits Limits

	mu   sync.Mutex // guards all below; not held while files are closed, which may block
	kept map[token]*bundle
	// held counts the tokens of each user and their files, until they are taken or closed: the peer
	// decides how long close takes, for example by SO_LINGER or a FUSE file system.
	held map[uint32]holding
}

// holding is what a user has in a Store.
type holding struct{ tokens, files int }

type token [TokenBytes]byte

// bundle is the files of one token.
type bundle struct {
	owner  api.Caller
	files  []*os.File
	expiry *time.Timer
}

// NewStore returns an empty store.
func NewStore(limits Limits) *Store {
	return &Store{limits: limits, kept: make(map[token]*bundle), held: make(map[uint32]holding)}
}

// keep stores files under a new token. It closes them if the limits are exceeded.
func (s *Store) keep(owner api.Caller, files []*os.File) (token, error) {
	var name token
	_, _ = rand.Read(name[:]) // it never fails
	if err := s.add(name, owner, files); err != nil {
		closeAll(files)
		return token{}, err
	}
	return name, nil
}

// add stores files under a token, or returns ErrTooMany.
func (s *Store) add(name token, owner api.Caller, files []*os.File) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.held[owner.UID]
	exceeds := now.tokens >= s.limits.Tokens || s.limits.UserFiles > 0 && now.files+len(files) > s.limits.UserFiles
	if exceeds && !(s.limits.ExceptRoot && owner.Root()) {
		return fmt.Errorf("%w: %d unused tokens of user %d hold %d files", ErrTooMany, now.tokens, owner.UID, now.files)
	}
	s.held[owner.UID] = holding{now.tokens + 1, now.files + len(files)}
	s.kept[name] = &bundle{owner: owner, files: files, expiry: time.AfterFunc(keepTime, func() { s.expire(name) })}
	return nil
}

// expire removes a token and closes its files.
func (s *Store) expire(name token) {
	s.mu.Lock()
	old := s.kept[name]
	delete(s.kept, name)
	s.mu.Unlock()
	if old == nil {
		return
	}
	closeAll(old.files)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.uncount(old)
}

// uncount takes a bundle off the user's account. The caller holds mu.
func (s *Store) uncount(old *bundle) {
	uid := old.owner.UID
	now := s.held[uid]
	s.held[uid] = holding{now.tokens - 1, now.files - len(old.files)}
	if s.held[uid] == (holding{}) {
		delete(s.held, uid)
	}
}

// Drop closes the files of a token of the caller in the background, if there are any.
func (s *Store) Drop(name []byte, caller api.Caller) {
	if len(name) != TokenBytes {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.kept[token(name)]; found != nil && found.owner.SameProcess(caller) {
		go s.expire(token(name))
	}
}

// Take returns the files of a token to the process that handed them off, once. The caller closes
// them. A token of another process stays valid.
func (s *Store) Take(name []byte, caller api.Caller) ([]*os.File, error) {
	if len(name) != TokenBytes {
		return nil, ErrToken
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.kept[token(name)]
	if found == nil || !found.owner.SameProcess(caller) {
		return nil, ErrToken
	}
	delete(s.kept, token(name))
	s.uncount(found)
	found.expiry.Stop()
	return found.files, nil
}

// Close closes all files that were not taken. Files of which the close blocks are left to the end
// of the process.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, b := range s.kept {
		b.expiry.Stop()
		go s.expire(name)
	}
	return nil
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // nothing was written through it
	}
}
