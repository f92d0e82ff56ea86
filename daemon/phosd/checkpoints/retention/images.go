package retention

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/internal/linux/fsuid"
)

const (
	// maxInterval is the longest time between two looks at all images, minInterval the shortest.
	maxInterval, minInterval = time.Hour, time.Second
	// agePart is the part of Options.Keep between two looks, if that is shorter.
	agePart = 8
	// usePart: a look takes at most one part in usePart of the time.
	usePart = 100
	// emptyAge is how old an image without a generation is at least when it is removed: it may be the
	// first checkpoint of a program on another machine.
	emptyAge = time.Hour
	// maxImages is how many directories of one user are looked at.
	maxImages = 4096
)

// Records keep the index; *statedir.Records does.
type Records interface {
	Save(name string, text []byte) error
	All() (map[string][]byte, error)
}

// Reasons why an image was removed.
const (
	Age   = "age"
	Quota = "quota"
	Empty = "empty"
)

// Options are what Images need.
type Options struct {
	// Base is the directory of the policy in phosd.toml; empty: there is none.
	Base string
	// Host is the machine's name, as in manifests.
	Host string
	// Keep is how long an image stays after its program has ended; 0: forever.
	Keep time.Duration
	// Wanted reports whether an image must stay, by its user and its path.
	Wanted func(uid uint32, path string) bool
	// Measure records what a user's images take. It returns an error if that is more than the user's
	// share.
	Measure func(uid uint32, bytes uint64) error
	// Share returns what a user's images may take, and whether removed images add to that.
	Share func(uid uint32) (limit uint64, limited, grows bool)
	// Removed counts a removed image.
	Removed func(reason string)
	Records Records
	// Life ends when phosd ends.
	Life context.Context //nolint:containedctx // phosd's own life, not a request's
	Log  *slog.Logger
}

// Images are the images below Options.Base.
type Images struct {
	options Options
	// index is the name of the record with ended.
	index string

	mu sync.Mutex // guards all below
	// ended is when an image was first seen without a program, by its path.
	ended   map[string]time.Time
	changed bool
	users   map[uint32]*sync.Mutex
}

// Open reads the index.
func Open(options Options) (*Images, error) {
	i := &Images{
		options: options, index: indexName(options.Base),
		ended: make(map[string]time.Time), users: make(map[uint32]*sync.Mutex),
	}
	if options.Base == "" {
		return i, nil
	}
	all, err := options.Records.All()
	if err != nil {
		return nil, err
	}
	if text := all[i.index]; text != nil {
		// With a damaged index each image has just ended.
		if err := json.Unmarshal(text, &i.ended); err != nil {
			options.Log.Warn("index of images ignored", "error", err)
			i.ended = make(map[string]time.Time)
		}
	}
	return i, nil
}

// Run looks at all images, again and again, until Options.Life ends.
func (i *Images) Run() {
	if i.options.Base == "" {
		return
	}
	interval := maxInterval
	if i.options.Keep > 0 {
		interval = min(max(i.options.Keep/agePart, minInterval), maxInterval)
	}
	for {
		begun := time.Now()
		i.lookAtAll()
		select {
		case <-time.After(max(interval, usePart*time.Since(begun))):
		case <-i.options.Life.Done():
			return
		}
	}
}

// lookAtAll looks at the images of each user. A user whose file system hangs delays no other user.
func (i *Images) lookAtAll() {
	base, err := os.Open(i.options.Base)
	if err != nil {
		if !errors.Is(err, os.ErrNotExist) {
			i.options.Log.Warn("look at images", "error", err)
		}
		return
	}
	names, err := base.Readdirnames(-1)
	base.Close()
	if err != nil {
		i.options.Log.Warn("look at images", "error", err)
		return
	}
	var looking sync.WaitGroup
	for _, name := range names {
		uid, err := strconv.ParseUint(name, 10, 32)
		if err != nil || strconv.FormatUint(uid, 10) != name {
			continue
		}
		looking.Go(func() {
			if err := i.lookAt(uint32(uid)); err != nil {
				i.options.Log.Warn("look at a user's images", "uid", uid, "error", err)
			}
		})
	}
	done := make(chan struct{})
	go func() { looking.Wait(); close(done) }()
	select {
	case <-done:
	case <-i.options.Life.Done():
	case <-time.After(maxInterval):
	}
	i.saveIndex()
}

// lookAt measures a user's images, and removes those that are too old or have no generation.
func (i *Images) lookAt(uid uint32) error {
	unlock, ok := i.tryLock(uid)
	if !ok {
		return nil // room is being made, or the last look hangs
	}
	defer unlock()
	user, as, err := i.openUser(uid)
	if err != nil {
		return err
	}
	defer user.Close()
	images, err := i.list(user, as)
	if err != nil {
		return err
	}
	for _, image := range images {
		switch {
		case image.empty:
			if time.Since(image.changed) >= emptyAge {
				i.remove(user, as, image, Empty)
			}
		case i.options.Keep > 0 && time.Since(image.ended) >= i.options.Keep:
			i.remove(user, as, image, Age)
		}
	}
	i.forgetMissing(uid)
	return i.makeRoom(user, as, false)
}

// MakeRoom removes a user's oldest images of ended programs until the user's share suffices. It
// returns an error, and removes nothing, if it does not suffice without any of them.
func (i *Images) MakeRoom(uid uint32) error {
	defer i.lock(uid)()
	user, as, err := i.openUser(uid)
	if err != nil {
		return err
	}
	defer user.Close()
	defer i.saveIndex()
	return i.makeRoom(user, as, true)
}

// makeRoom is MakeRoom with the user's lock held. Unless refuse is set, a share that is used up is
// no error.
func (i *Images) makeRoom(user *os.File, as fsuid.Rights, refuse bool) error {
	used, err := archive.UsedBytes(i.options.Life, user)
	if err != nil {
		return err
	}
	full := i.options.Measure(as.UID, used)
	if full == nil || as.UID == 0 {
		return nil
	}
	if !errors.Is(full, api.ErrExhausted) {
		return full
	}
	limit, limited, grows := i.options.Share(as.UID)
	// A share that is not fixed may be used up by what other users write: then only the user's own
	// checkpoint makes room.
	switch {
	case !refuse && (i.options.Keep == 0 || grows):
		return nil
	case i.options.Keep == 0:
		return full
	}
	images, err := i.list(user, as)
	if err != nil {
		return err
	}
	var removable uint64
	images = slices.DeleteFunc(images, func(image endedImage) bool { return image.foreign })
	for n := range images {
		removable += i.measure(images[n], user, as)
	}
	if limited {
		if grows {
			limit += removable
		}
		if used > removable+limit {
			if refuse {
				return full
			}
			return nil
		}
	}
	for _, image := range images {
		i.remove(user, as, image, Quota)
		if used, err = archive.UsedBytes(i.options.Life, user); err != nil {
			return err
		}
		if full = i.options.Measure(as.UID, used); full == nil {
			return nil
		}
	}
	if refuse {
		return full
	}
	return nil
}

// lock takes a user's lock until unlock is called.
func (i *Images) lock(uid uint32) (unlock func()) {
	lock := i.lockOf(uid)
	lock.Lock()
	return lock.Unlock
}

// tryLock takes a user's lock if it is free.
func (i *Images) tryLock(uid uint32) (unlock func(), ok bool) {
	lock := i.lockOf(uid)
	return lock.Unlock, lock.TryLock()
}

// lockOf returns a user's lock.
func (i *Images) lockOf(uid uint32) *sync.Mutex {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.users[uid] == nil {
		i.users[uid] = new(sync.Mutex)
	}
	return i.users[uid]
}

// openUser opens a user's directory, which must belong to the user.
func (i *Images) openUser(uid uint32) (*os.File, fsuid.Rights, error) {
	base, err := os.Open(i.options.Base)
	if err != nil {
		return nil, fsuid.Rights{}, err
	}
	defer base.Close()
	user, err := openBelow(base, strconv.FormatUint(uint64(uid), 10))
	if err != nil {
		return nil, fsuid.Rights{}, err
	}
	var info unix.Stat_t
	if err := unix.Fstat(int(user.Fd()), &info); err != nil {
		return nil, fsuid.Rights{}, errors.Join(err, user.Close())
	}
	if info.Uid != uid {
		err := fmt.Errorf("%s belongs to user %d: %w", user.Name(), info.Uid, unix.EPERM)
		return nil, fsuid.Rights{}, errors.Join(err, user.Close())
	}
	return user, fsuid.Rights{UID: uid, GID: info.Gid}, nil
}
