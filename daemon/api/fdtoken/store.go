package fdtoken

import (
	"crypto/rand"
	"errors"
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

	mu   sync.Mutex // guards kept
	kept map[token]*bundle
}

type token [TokenBytes]byte

// bundle is the files of one token.
type bundle struct {
	owner  api.Caller
	files  []*os.File
	expiry *time.Timer
}

// NewStore returns an empty store.
func NewStore(limits Limits) *Store {
	return &Store{limits: limits, kept: make(map[token]*bundle)}
}

// keep stores files under a new token. It closes them if the limits are exceeded.
func (s *Store) keep(owner api.Caller, files []*os.File) (token, error) {
	var name token
	_, _ = rand.Read(name[:]) // it never fails
	s.mu.Lock()
	defer s.mu.Unlock()
	tokens, held := s.count(owner.UID)
	exceeds := tokens >= s.limits.Tokens || s.limits.UserFiles > 0 && held+len(files) > s.limits.UserFiles
	if exceeds && !(s.limits.ExceptRoot && owner.Root()) {
		closeAll(files)
		return token{}, fmt.Errorf("%w: %d unused tokens of user %d hold %d files", ErrTooMany, tokens, owner.UID, held)
	}
	s.kept[name] = &bundle{owner: owner, files: files, expiry: time.AfterFunc(keepTime, func() { s.expire(name) })}
	return name, nil
}

// count returns how many unused tokens a user has, and how many files they hold.
func (s *Store) count(uid uint32) (tokens, files int) {
	for _, b := range s.kept {
		if b.owner.UID == uid {
			tokens++
			files += len(b.files)
		}
	}
	return tokens, files
}

// expire removes a token and closes its files.
func (s *Store) expire(name token) {
	s.mu.Lock()
	old := s.kept[name]
	delete(s.kept, name)
	s.mu.Unlock()
	if old != nil {
		closeAll(old.files)
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
	found.expiry.Stop()
	return found.files, nil
}

// Close closes all files that were not taken.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var failures []error
	for name, b := range s.kept {
		b.expiry.Stop()
		delete(s.kept, name)
		for _, file := range b.files {
			failures = append(failures, file.Close())
		}
	}
	return errors.Join(failures...)
}

func closeAll(files []*os.File) {
	for _, file := range files {
		_ = file.Close() // nothing was written through it
	}
}
