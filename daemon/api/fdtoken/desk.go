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

// keepTime is how long files wait for the request that names them.
const keepTime = 30 * time.Second

// TokenBytes is the length of a token.
const TokenBytes = 32

// ErrToken means that a token stands for no files of this caller: wrong, used already, or too old.
var ErrToken = fmt.Errorf("%w: no files were handed over under this token", api.ErrInvalid)

// ErrTooMany means that more was handed over than is kept.
var ErrTooMany = fmt.Errorf("%w: too many files handed over", api.ErrExhausted)

// Limits bound what a Desk keeps.
type Limits struct {
	// Files is the most that one token may stand for.
	Files int
	// Tokens is the most that wait at a time for one user.
	Tokens int
}

// Desk keeps files that were handed over until they are taken.
type Desk struct {
	limits Limits

	mu   sync.Mutex // guards kept
	kept map[token]*bundle
}

type token [TokenBytes]byte

// bundle is what one connection brought.
type bundle struct {
	owner  api.Actor
	files  []*os.File
	expiry *time.Timer
}

// NewDesk makes a desk.
func NewDesk(limits Limits) *Desk {
	return &Desk{limits: limits, kept: make(map[token]*bundle)}
}

// keep takes files over. They are closed when they may not stay.
func (d *Desk) keep(owner api.Actor, files []*os.File) (token, error) {
	var name token
	_, _ = rand.Read(name[:]) // it never fails
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.count(owner.UID) >= d.limits.Tokens {
		closeAll(files)
		return token{}, fmt.Errorf("%w: %d tokens of user %d wait already", ErrTooMany, d.limits.Tokens, owner.UID)
	}
	d.kept[name] = &bundle{owner: owner, files: files, expiry: time.AfterFunc(keepTime, func() { d.expire(name) })}
	return name, nil
}

func (d *Desk) count(uid uint32) (tokens int) {
	for _, b := range d.kept {
		if b.owner.UID == uid {
			tokens++
		}
	}
	return tokens
}

func (d *Desk) expire(name token) {
	d.mu.Lock()
	old := d.kept[name]
	delete(d.kept, name)
	d.mu.Unlock()
	if old != nil {
		closeAll(old.files)
	}
}

// Take gives the files of a token to the process that handed them over, once; they are the caller's
// to close. A token that is somebody else's stays where it is.
func (d *Desk) Take(named []byte, actor api.Actor) ([]*os.File, error) {
	if len(named) != TokenBytes {
		return nil, ErrToken
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	found := d.kept[token(named)]
	if found == nil || found.owner.UID != actor.UID || found.owner.PID != actor.PID {
		return nil, ErrToken
	}
	delete(d.kept, token(named))
	found.expiry.Stop()
	return found.files, nil
}

// Close closes what nobody has taken.
func (d *Desk) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	var failures []error
	for name, b := range d.kept {
		b.expiry.Stop()
		delete(d.kept, name)
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
