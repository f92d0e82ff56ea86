package core

import (
	"fmt"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/fatbin"
	"github.com/phos-gpu/phos/daemon/worker/ipc"
	"github.com/phos-gpu/phos/daemon/worker/session/exports"
	"github.com/phos-gpu/phos/daemon/worker/session/object"
	"github.com/phos-gpu/phos/daemon/worker/session/saved"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Encoder collects what is saved of a session. How an object is saved stands beside its kind.
type Encoder struct {
	Out saved.Session
	// Exporters is where sessions are found that this one has memory and events of.
	Exporters ipc.Dir
	images    map[*object.Image]int // places in Out.Images
	err       error                 // the first
}

// NewEncoder returns an encoder of a session with so many GPUs.
func NewEncoder(devices int, exporters ipc.Dir) *Encoder {
	return &Encoder{
		Exporters: exporters,
		Out:       saved.Session{Devices: make([]saved.Device, devices)}, images: map[*object.Image]int{},
	}
}

// Bytes returns the encoded session, or the first error.
func (e *Encoder) Bytes() ([]byte, error) {
	if e.err != nil {
		return nil, e.err
	}
	return saved.Encode(&e.Out)
}

// Add appends an object.
func (e *Encoder) Add(o *object.Object) {
	out := saved.Object{ID: o.ID, Kind: o.Kind, State: o.State.(State).Save(e)}
	if o.Parent != nil {
		out.Owner = o.Parent.ID
	}
	e.Out.Objects = append(e.Out.Objects, out)
}

// Fail notes an error. The first one counts.
func (e *Encoder) Fail(err error) {
	if e.err == nil {
		e.err = err
	}
}

// Image returns the place of an image among those that are saved. The first to come stand first, so
// that code which is there for long stays where it is from one time to the next.
func (e *Encoder) Image(image *object.Image) int {
	at, ok := e.images[image]
	if !ok {
		at = len(e.Out.Images)
		e.images[image] = at
		e.Out.Images = append(e.Out.Images, image.Bytes)
	}
	return at
}

// Resumable is a device's context as one that can be saved.
func (e *Encoder) Resumable(d *Device) gpu.Resumable {
	c, ok := d.GPU.(gpu.Resumable)
	if !ok {
		e.Fail(&gpu.Error{Op: "save session", Code: abi.NotSupported, Detail: d.Info.Name + " cannot be saved"})
		return nothing{}
	}
	return c
}

// nothing stands for a context that cannot be saved, after the error is noted.
type nothing struct{}

func (nothing) Continuation() gpu.Continuation             { return gpu.Continuation{} }
func (nothing) EventTime(gpu.Event) (gpu.EventTime, error) { return gpu.EventTime{}, nil }
func (nothing) Poison(error)                               {}

// Decoder holds a saved session while it is restored.
type Decoder struct {
	In     *saved.Session
	Images []Image
	// Instantiate and Finish run when all objects are there: first the former, which make executables
	// ready, then the latter, which set attributes of functions and peer access.
	Instantiate, Finish []func() error
}

// Image is code that saved objects name by its place.
type Image struct {
	Kept   *object.Image
	Parsed *fatbin.Images
}

// Damaged returns an error about a saved session that decodes but cannot be restored.
func Damaged(format string, args ...any) error {
	return fmt.Errorf("%w: %s", saved.ErrDamaged, fmt.Sprintf(format, args...))
}

// ParentOf returns the state of an object's parent, which must be of a certain kind.
func ParentOf[T any](o *object.Object) (parent T, err error) {
	if o.Parent != nil {
		if parent, ok := o.Parent.State.(T); ok {
			return parent, nil
		}
	}
	return parent, Damaged("its parent is not what it must be")
}

// RestoreExport offers memory or an event under the key that it had. Other sessions can import it
// once Exports.Resume is called.
func (s *Core) RestoreExport(r *Decoder, key ipc.ID, what exports.Offer) error {
	if r.In.Exporter == (ipc.ID{}) {
		return Damaged("it cannot have been exported")
	}
	s.Exports.Put(key, what)
	return nil
}
