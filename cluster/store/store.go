package store

import (
	"context"
	"time"
)

// Revision numbers the changes of a store. Each change of any object has a higher one.
type Revision int64

// Object is a key with its value.
type Object struct {
	Key   string
	Value []byte
	// Revision is that of the last change of this object. A write names it as Write.Replaces.
	Revision Revision
}

// Change is a change of an object. Deleted means that the object is gone: it has no value then, and
// its revision is that of the deletion.
type Change struct {
	Object
	Deleted bool
}

// Write changes one object.
type Write struct {
	Key   string
	Value []byte
	// Replaces is the revision that the object must still have; New means that it must not exist.
	Replaces Revision
	// Epoch is that of the leadership which writes, and must still be the newest; NoEpoch is a write
	// that needs none.
	Epoch Epoch
}

// New is the Write.Replaces of an object that must not exist yet.
const New Revision = 0

// Epoch is the number of a leadership. A later one has a higher number.
type Epoch int64

// NoEpoch is the Write.Epoch of writers that do not lead.
const NoEpoch Epoch = 0

// Store keeps objects. CheckKey says which keys it takes. A method whose context ends returns the
// error of the context. Otherwise it returns ErrUnavailable if the store does not answer in time,
// and after Close. A write that ends with one of these errors may have been done, or may still be.
type Store interface {
	// Get returns an object, or ErrNotFound.
	Get(ctx context.Context, key string) (Object, error)

	// List returns the objects whose keys begin with a prefix, in the order of keys, as they all were
	// at one revision. An empty prefix lists all.
	List(ctx context.Context, prefix string) ([]Object, Revision, error)

	// Watch sends all changes of keys with a prefix that are later than a revision, in order and each
	// once, in groups that were done at once. It calls deliver until the context ends, deliver returns
	// an error, which Watch returns, or changes are missing: the error is ErrCompacted then, and the
	// caller lists again. A store that does not answer makes Watch wait.
	Watch(ctx context.Context, prefix string, after Revision, deliver func([]Change) error) error

	// Put writes an object and returns its new revision. The error is ErrConflict if the object has
	// another revision than Write.Replaces, ErrDeposed if Write.Epoch is not the newest, whatever the
	// object's revision is, ErrFull, after which the caller reads what is there, or ErrTooLarge.
	Put(ctx context.Context, w Write) (Revision, error)

	// Delete removes the object that has the revision Write.Replaces, which is not New. Write.Value is
	// not used; the errors are ErrConflict and ErrDeposed, as those of Put. It works while the store
	// is full.
	Delete(ctx context.Context, w Write) error

	// Campaign waits until the caller leads, and returns its leadership. The name is told to all that
	// ask for the leader: an address. One store has one leader. A store that does not answer makes
	// Campaign wait.
	Campaign(ctx context.Context, name string) (Leadership, error)

	// Leader returns the name of the leader, or ErrNotFound if there is none now.
	Leader(ctx context.Context) (name string, epoch Epoch, err error)

	// Close ends the connection. It does not resign a leadership, but ends its renewal: Lost is
	// closed, and another one can lead when the lease ends.
	Close() error
}

// Leadership is the right to write with an epoch. It ends by itself unless it is renewed, which the
// implementation does.
type Leadership interface {
	Epoch() Epoch
	// Until returns until when no other can lead, by the clock of internal/linux/boottime: the time
	// at which the last renewal that the store has answered was sent, plus the lease. What the leader
	// promises to others must not reach further. After Lost it does not change.
	Until() time.Duration
	// Lost is closed when the leadership has ended, at the latest at Until, also if the machine was
	// suspended then.
	Lost() <-chan struct{}
	// Resign ends it at once, so that another one can lead.
	Resign(ctx context.Context) error
}
