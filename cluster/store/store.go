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

// Change is a change of an object. Deleted means that the object is gone: it has no value then.
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

// Store keeps objects. keys are those that CheckKey takes. All methods
// return ErrUnavailable if the store cannot answer now; a write may have been done then.
type Store interface {
	// Get returns an object, or ErrNotFound.
	Get(ctx context.Context, key string) (Object, error)

	// List returns the objects whose keys begin with a prefix, in the order of keys, as they all were
	// at one revision.
	List(ctx context.Context, prefix string) ([]Object, Revision, error)

	// Watch sends all changes below a prefix that are later than a revision, in order, in groups that
	// were done at once. It calls deliver until the context ends, deliver returns an error, or changes
	// are missing: the error is ErrCompacted then, and the caller lists again.
	Watch(ctx context.Context, prefix string, after Revision, deliver func([]Change) error) error

	// Put writes an object and returns its new revision. The error is ErrConflict if the object has
	// another revision than Write.Replaces, ErrDeposed if there is a newer epoch, and ErrFull.
	Put(ctx context.Context, w Write) (Revision, error)

	// Delete removes an object. Write.Value is not used; the errors are those of Put.
	Delete(ctx context.Context, w Write) error

	// Campaign waits until the caller leads, and returns its leadership. The name is told to everyone
	// who asks for the leader: an address. One store has one leader.
	Campaign(ctx context.Context, name string) (Leadership, error)

	// Leader returns the name of the leader, or ErrNotFound if there is none now.
	Leader(ctx context.Context) (name string, epoch Epoch, err error)

	// Close ends the connection. It does not resign a leadership.
	Close() error
}

// Leadership is the right to write with an epoch. It ends by itself unless it is renewed, which the
// implementation does.
type Leadership interface {
	Epoch() Epoch
	// Until returns until when nobody else can lead, by the clock of this machine: the last renewal
	// that the store has answered, plus the lease. What the leader promises to others must not reach
	// further.
	Until() time.Time
	// Lost is closed when the leadership has ended.
	Lost() <-chan struct{}
	// Resign ends it at once, so that another one can lead.
	Resign(ctx context.Context) error
}
