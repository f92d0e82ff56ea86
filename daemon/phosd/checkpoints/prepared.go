package checkpoints

import (
	"context"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/phos-gpu/phos/ckpt"
	"github.com/phos-gpu/phos/ckpt/image"
	"github.com/phos-gpu/phos/ckpt/store/contents"
	"github.com/phos-gpu/phos/daemon/api"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/archive"
	"github.com/phos-gpu/phos/daemon/phosd/checkpoints/preflight"
	"github.com/phos-gpu/phos/daemon/phosd/quota"
	"github.com/phos-gpu/phos/internal/linux/rootdir"
)

// preparedImages keeps images whose restore has been started in advance.
type preparedImages struct {
	mu       sync.Mutex // guards all below
	ready    map[preparedKey]*preparedImage
	inFlight map[preparedKey]*inFlight
}

// preparedKey names the content of an image, wherever it is, the user that had it prepared, where
// that user's process is (what was prepared for one container has files of that container), and the
// GPUs on which its memory is.
type preparedKey struct {
	content image.Hash
	uid     uint32
	place   rootdir.ID
	gpus    string
}

// preparedImage is ready for a restore.
type preparedImage struct {
	prepared *ckpt.Prepared
	// dir is the path of the image.
	dir string
	// kept counts the image as the user's.
	kept *quota.Claim
	// expiry drops the image after a time.
	expiry *time.Timer
}

// inFlight is an image that is being prepared.
type inFlight struct {
	cancel context.CancelCauseFunc
	ended  chan struct{}
}

func keyOf(image *archive.Image, caller api.Caller, root *rootdir.Root, gpus preflight.GPUs) preparedKey {
	return preparedKey{image.Identity, caller.UID, root.ID(), gpus.String()}
}

// has reports whether an image is prepared.
func (p *preparedImages) has(key preparedKey) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.ready[key] != nil
}

// holds reports whether an image in a directory is prepared for a user, or for root.
func (p *preparedImages) holds(uid uint32, dir string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for key, each := range p.ready {
		if each.dir == dir && (key.uid == uid || key.uid == 0) {
			return true
		}
	}
	return false
}

// take hands out a prepared image, or nil.
func (p *preparedImages) take(key preparedKey) *ckpt.Prepared {
	p.mu.Lock()
	defer p.mu.Unlock()
	found := p.ready[key]
	if found == nil {
		return nil
	}
	delete(p.ready, key)
	found.expiry.Stop()
	found.kept.Release()
	return found.prepared
}

// put keeps a prepared image for a while. It returns false if there is one already.
func (p *preparedImages) put(
	key preparedKey,
	dir string,
	prepared *ckpt.Prepared,
	kept *quota.Claim,
	keep time.Duration,
) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ready == nil {
		p.ready = make(map[preparedKey]*preparedImage)
	}
	if p.ready[key] != nil {
		return false
	}
	p.ready[key] = &preparedImage{prepared: prepared, dir: dir, kept: kept, expiry: time.AfterFunc(keep, func() {
		if expired := p.take(key); expired != nil {
			expired.Close()
		}
	})}
	return true
}

// begin registers a preparation, so that it can be cancelled, until end is called.
func (p *preparedImages) begin(key preparedKey, cancel context.CancelCauseFunc) (end func(), err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.inFlight == nil {
		p.inFlight = make(map[preparedKey]*inFlight)
	}
	if p.inFlight[key] != nil {
		return nil, fmt.Errorf("%w: this image is already being prepared", api.ErrInvalid)
	}
	begun := &inFlight{cancel, make(chan struct{})}
	p.inFlight[key] = begun
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		delete(p.inFlight, key)
		close(begun.ended)
	}, nil
}

// cancel drops a prepared image, or cancels its preparation and waits for that.
func (p *preparedImages) cancel(key preparedKey) {
	p.mu.Lock()
	begun := p.inFlight[key]
	p.mu.Unlock()
	if begun != nil {
		begun.cancel(ErrCanceled)
		<-begun.ended
	}
	if prepared := p.take(key); prepared != nil {
		prepared.Close()
	}
}

// close drops all prepared images.
func (p *preparedImages) close() {
	p.mu.Lock()
	all := p.ready
	p.ready = nil
	p.mu.Unlock()
	for _, each := range all {
		each.expiry.Stop()
		each.prepared.Close()
	}
}

// Preparation is a prepared image, as the caller of a pre-restore sees it.
type Preparation struct {
	// MemoryBytes is the device memory that is loaded.
	MemoryBytes uint64
	Took        time.Duration
}

// Prepare unpacks an image, has workers load all memory, and keeps that for the next restore.
func (c *Checkpoints) Prepare(
	ctx context.Context,
	directory *os.File,
	request *api.PreRestoreRequest,
	caller api.Caller,
	progress func(ckpt.Step),
) (*Preparation, error) {
	image, err := c.archive.Open(
		directory, request.GetGeneration(), archive.Access{Caller: caller, TrustSeal: request.GetTrustSeal()},
	)
	if err != nil {
		return nil, contents.ExplainDamage(pathOf(directory), err)
	}
	if c.options.CPU == nil {
		image.Close()
		return nil, errNotBuilt
	}
	// With new pids: a pid that is taken now may be free when the restore comes.
	place, err := caller.Container()
	var root *rootdir.Root
	if err == nil {
		root, err = rootOf(place)
	}
	defer root.Close()
	var gpus preflight.GPUs
	if err == nil {
		gpus, err = c.assign(image, preflight.Choice{Wanted: request.GetGpus()})
	}
	if err == nil {
		err = asError(c.obstacles(ctx, image, caller, preflight.Restore{NewPids: true, Root: root, GPUs: gpus}))
	}
	if err != nil {
		image.Close()
		return nil, err
	}
	defer c.restoring.add(caller.UID, pathOf(directory))()
	begun, key := time.Now(), keyOf(image, caller, root, gpus)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	end, err := c.prepared.begin(key, cancel)
	if err != nil {
		image.Close()
		return nil, err
	}
	defer end()
	kept, err := c.options.Quota.Take(caller.UID, quota.Prepared, 1)
	if err != nil {
		image.Close()
		return nil, err
	}
	kept.By(caller.Process)
	prepared, err := c.prepareImage(ctx, image, preparation{true, root, gpus, caller, progress})
	if err != nil {
		kept.Release()
		return nil, contents.ExplainDamage(pathOf(directory), err)
	}
	if !c.prepared.put(key, pathOf(directory), prepared, kept, c.config.PreparedTime()) {
		kept.Release()
		prepared.Close()
		return nil, fmt.Errorf("%w: this image is already prepared", api.ErrInvalid)
	}
	done := &Preparation{Took: time.Since(begun)}
	for _, p := range image.Manifest.Processes {
		if p.GPU != nil {
			done.MemoryBytes += p.GPU.MemoryBytes
		}
	}
	return done, nil
}

// CancelPrepare drops what Prepare has prepared or is preparing.
func (c *Checkpoints) CancelPrepare(directory *os.File, request *api.PreRestoreRequest, caller api.Caller) error {
	// Nothing is restored, so the seal need not be trusted.
	image, err := c.archive.Open(directory, request.GetGeneration(), archive.Access{Caller: caller, TrustSeal: true})
	if err != nil {
		return err
	}
	defer image.Close()
	place, err := caller.Container()
	if err != nil {
		return err
	}
	root, err := rootOf(place)
	if err != nil {
		return err
	}
	defer root.Close()
	gpus, err := c.assign(image, preflight.Choice{Wanted: request.GetGpus()})
	if err != nil {
		return err
	}
	c.prepared.cancel(keyOf(image, caller, root, gpus))
	return nil
}
