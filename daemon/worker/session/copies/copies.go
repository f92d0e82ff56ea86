package copies

import (
	"errors"
	"io"
	"math/bits"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/daemon/worker/session/graph"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

// quickBytes is the largest copy that is done at once, without the stream, when the stream has
// nothing to do.
const quickBytes = gpu.EarlyBytes

// longBytes is the least size of a copy that keeps all cores busy for a while.
const longBytes = 1 << 20

// inline is memory that came with a call. It can only be read.
type inline []byte

// ReadAt copies from the bytes at an offset.
func (b inline) ReadAt(p []byte, offset int64) (int, error) {
	if offset < 0 || offset > int64(len(b)) {
		return 0, io.ErrUnexpectedEOF
	}
	n := copy(p, b[offset:])
	if n < len(p) {
		return n, io.ErrUnexpectedEOF
	}
	return n, nil
}

// WriteAt fails.
func (b inline) WriteAt([]byte, int64) (int, error) { return 0, errors.ErrUnsupported }

// watched is the program's memory as one copy uses it; it remembers what went wrong, as the stream
// does not.
type watched struct {
	gpu.HostMemory
	mu  sync.Mutex
	err error
}

// note stores the first error for failure to return.
func (w *watched) note(err error) {
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.err == nil {
			w.err = &gpu.Error{Op: "copy program memory", Code: abi.InvalidValue, Detail: err.Error()}
		}
	}
}

// ReadAt reads the program's memory.
func (w *watched) ReadAt(p []byte, address int64) (int, error) {
	n, err := w.HostMemory.ReadAt(p, address)
	w.note(err)
	return n, err
}

// WriteAt writes the program's memory.
func (w *watched) WriteAt(p []byte, address int64) (int, error) {
	n, err := w.HostMemory.WriteAt(p, address)
	w.note(err)
	return n, err
}

// failure returns the first error of the copy.
func (w *watched) failure() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.err
}

// reported is the program's memory as copies of graphs use it. No call waits for such a copy, so an
// error is stored for a later call to return.
type reported struct {
	gpu.HostMemory
	session *Copies
}

// GraphMemory is the program's memory for copies that no call waits for.
func (s *Copies) GraphMemory() gpu.HostMemory { return reported{s.Program.Memory(core.NoThread), s} }

// note stores an error in the session: a later call returns it.
func (r reported) note(err error) {
	if err != nil {
		r.session.FailLater(&gpu.Error{Op: "copy program memory in a graph", Code: gpu.Code(err), Detail: err.Error()})
	}
}

// ReadAt reads the program's memory.
func (r reported) ReadAt(p []byte, address int64) (int, error) {
	n, err := r.HostMemory.ReadAt(p, address)
	r.note(err)
	return n, err
}

// WriteAt writes the program's memory.
func (r reported) WriteAt(p []byte, address int64) (int, error) {
	n, err := r.HostMemory.WriteAt(p, address)
	r.note(err)
	return n, err
}

// span is the number of bytes from the first to behind the last byte of a box. ok is false when
// that cannot be counted.
func span(extent [3]uint64, rowPitch, slicePitch uint64) (bytes uint64, ok bool) {
	over1, rows := bits.Mul64(rowPitch, extent[1]-1)
	over2, slices := bits.Mul64(slicePitch, extent[2]-1)
	sum, carry1 := bits.Add64(rows, slices, 0)
	sum, carry2 := bits.Add64(sum, extent[0], 0)
	return sum, over1|over2|carry1|carry2 == 0
}

// place checks one end of a copy and makes it one that a device's stream understands.
func (s *Copies) place(
	d *core.Device,
	end graph.End,
	extent [3]uint64,
	program gpu.HostMemory,
	write bool,
) (gpu.Place, error) {
	place := s.Resolve(d, end, program)
	if end.Inline != nil || end.Program {
		return place, nil
	}
	if extent[1] > 1 && end.RowPitch < extent[0] || extent[2] > 1 && end.SlicePitch < extent[0] {
		return place, core.Invalid("copy", "a pitch is smaller than what it spans")
	}
	bytes, ok := span(extent, end.RowPitch, end.SlicePitch)
	if !ok {
		return place, core.Invalid("copy", "the box is larger than the address space")
	}
	_, err := s.memory.CheckRange(d, gpu.Range{Address: end.Address, Bytes: bytes}, write)
	return place, err
}

// Resolve makes one end of a copy one that a device's stream understands, whatever is there.
func (s *Copies) Resolve(d *core.Device, end graph.End, program gpu.HostMemory) gpu.Place {
	place := gpu.Place{Address: end.Address, RowPitch: end.RowPitch, SlicePitch: end.SlicePitch}
	switch holder := s.memory.DeviceFor(d, end.Address); {
	case end.Inline != nil:
		place.Host, place.Address = inline(end.Inline), 0
	case end.Program:
		place.Host = program
	case holder == nil || holder == d:
	case holder.GPU == nil:
		place.Host = inline(nil) // which has nothing to read, and cannot be written
	default:
		place.Host = holder.GPU.Memory() // another device's memory, as if it were a host's
	}
	return place
}

// CopyWork makes work of a copy, also of one of nothing: a graph may make another of it. program is
// the program's memory, for the ends that lie there.
func (s *Copies) CopyWork(d *core.Device, c graph.Copy, program gpu.HostMemory) (gpu.Work, error) {
	if c.Extent[0] == 0 || c.Extent[1] == 0 || c.Extent[2] == 0 {
		return gpu.Copy{}, nil
	}
	dst, err := s.place(d, c.Dst, c.Extent, program, true)
	if err != nil {
		return nil, err
	}
	src, err := s.place(d, c.Src, c.Extent, program, false)
	if err != nil {
		return nil, err
	}
	return gpu.Copy{Dst: dst, Src: src, Extent: c.Extent}, nil
}

func (s *Copies) memcpy(call *core.Call, in *wire.Memcpy) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	c := graph.Copy{
		Dst:    graph.End{Address: in.Dst, RowPitch: in.DstPitch, SlicePitch: in.DstSlice},
		Src:    graph.End{Address: in.Src, RowPitch: in.SrcPitch, SlicePitch: in.SrcSlice},
		Extent: [3]uint64{in.Width, in.Height, in.Depth},
	}
	return s.submitCopy(st, c, nil)
}

// submitCopy captures a copy or gives it to its stream.
func (s *Copies) submitCopy(st *core.Stream, c graph.Copy, program gpu.HostMemory) error {
	if st.Line.Capturing() {
		_, err := st.Line.Add(c)
		return err
	}
	if err := s.RequireUncaptured(st, "copy"); err != nil {
		return err
	}
	work, err := s.CopyWork(st.Context.Device, c, program)
	if err != nil {
		return err
	}
	return st.Enqueue(work)
}

const InProgram = 1

// ParseCopy reads the arguments that every copy has which may touch the program's memory.
func ParseCopy(in *wire.MemcpyWait) graph.Copy {
	return graph.Copy{
		Dst: graph.End{
			Program:    in.DstKind == InProgram,
			Address:    in.Dst,
			RowPitch:   in.DstPitch,
			SlicePitch: in.DstSlice,
		},
		Src: graph.End{
			Program:    in.SrcKind == InProgram,
			Address:    in.Src,
			RowPitch:   in.SrcPitch,
			SlicePitch: in.SrcSlice,
		},
		Extent: [3]uint64{in.Width, in.Height, in.Depth},
	}
}

func (s *Copies) memcpyWait(call *core.Call, in *wire.MemcpyWait) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	c := ParseCopy(in)
	if st.Line.Capturing() {
		return s.submitCopy(st, c, nil)
	}
	program := &watched{HostMemory: s.Program.Memory(call.Slot)}
	if done, err := s.copyNow(st, c, program); done {
		return err
	}
	if err := s.submitCopy(st, c, program); err != nil {
		return err
	}
	call.SetLong(c.Extent[0]*c.Extent[1]*c.Extent[2] >= longBytes)
	return st.Beside(call, func() error {
		if err := st.Work.Synchronize(); err != nil {
			return err
		}
		return program.failure()
	})
}

// copyNow does a small linear copy between program and device at once if the stream has nothing
// before it, which saves waking it. done is false when the stream has to do it.
func (s *Copies) copyNow(st *core.Stream, c graph.Copy, program *watched) (done bool, err error) {
	n := c.Extent[0]
	if n == 0 || n > quickBytes || c.Extent[1] != 1 || c.Extent[2] != 1 || c.Dst.Program == c.Src.Program ||
		!st.Ready() {
		return false, nil
	}
	if err := s.RequireUncaptured(st, "copy"); err != nil {
		return true, err
	}
	end, back := c.Dst, false
	if c.Dst.Program {
		end, back = c.Src, true
	}
	d, err := s.memory.CheckRange(st.Context.Device, gpu.Range{Address: end.Address, Bytes: n}, !back)
	if err != nil {
		return true, err
	}
	if d != st.Context.Device || d.GPU.Fault() != nil {
		return false, nil
	}
	if s.scratch == nil {
		s.scratch = make([]byte, quickBytes)
	}
	buffer := s.scratch[:n]
	if back {
		if _, err := d.GPU.Memory().ReadAt(buffer, int64(end.Address)); err != nil {
			return true, err
		}
		_, _ = program.WriteAt(buffer, int64(c.Dst.Address))
	} else if _, err := program.ReadAt(buffer, int64(c.Src.Address)); err == nil {
		if _, err := d.GPU.Memory().WriteAt(buffer, int64(end.Address)); err != nil {
			return true, err
		}
	}
	return true, program.failure()
}

// stages reports whether the stream takes small copies as quickly as memory is written without it.
func stages(st *core.Stream) bool {
	stager, ok := st.Work.(gpu.Stager)
	return ok && stager.Stages()
}

// memcpyInline writes bytes that came with the call.
func (s *Copies) memcpyInline(call *core.Call, in *wire.MemcpyInline) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	n := uint64(len(in.Bytes))
	if n == 0 {
		return nil
	}
	if !st.Line.Capturing() && !stages(st) && st.Ready() && st.Context.Device.GPU.Fault() == nil {
		if err := s.RequireUncaptured(st, "copy"); err != nil {
			return err
		}
		d, err := s.memory.CheckRange(st.Context.Device, gpu.Range{Address: in.Dst, Bytes: n}, true)
		if err != nil {
			return err
		}
		if d == st.Context.Device {
			_, err := d.GPU.Memory().WriteAt(in.Bytes, int64(in.Dst))
			return err
		}
	}
	st.CountBytes(len(in.Bytes))
	c := graph.Copy{
		Dst:    graph.End{Address: in.Dst},
		Src:    graph.End{Inline: s.Params.Keep(in.Bytes)},
		Extent: [3]uint64{n, 1, 1},
	}
	return s.submitCopy(st, c, nil)
}

// peerOrder orders a stream and all streams of a context, so that a copy between contexts is
// serialized with their work.
func (s *Copies) peerOrder(call *core.Call, in *wire.PeerOrder) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	c, err := s.Context(call, in.Context)
	if err != nil {
		return err
	}
	if c.Ending {
		return &gpu.Error{Op: "copy between contexts", Code: abi.ContextIsDestroyed}
	}
	for _, other := range c.Streams {
		if in.After == 0 {
			err = st.Join(other)
		} else {
			err = other.Join(st)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Copies) memset(call *core.Call, in *wire.Memset) error {
	st, err := s.Stream(call, in.Stream)
	if err != nil {
		return err
	}
	fill := gpu.Fill{
		Address:      in.Address,
		RowPitch:     in.Pitch,
		Pattern:      in.Pattern,
		PatternBytes: uint8(in.PatternBytes),
		Columns:      in.Columns,
		Rows:         in.Rows,
	}
	if err := CheckFill(in.PatternBytes, fill); err != nil {
		return err
	}
	if st.Line.Capturing() {
		_, err := st.Line.Add(graph.Memset{Fill: fill})
		return err
	}
	if err := s.RequireUncaptured(st, "memset"); err != nil {
		return err
	}
	work, err := s.FillWork(st.Context.Device, fill)
	if err != nil {
		return err
	}
	return st.Enqueue(work)
}

// CheckFill returns an error for a fill that the driver would refuse.
func CheckFill(patternBytes uint32, fill gpu.Fill) error {
	switch {
	case patternBytes != 1 && patternBytes != 2 && patternBytes != 4:
		return core.Invalid("memset", "a pattern has 1, 2 or 4 bytes")
	case fill.Address%uint64(patternBytes) != 0:
		return core.Invalid("memset", "the address is not aligned to the pattern")
	case fill.Columns > 1<<60:
		return core.Invalid("memset", "too many columns")
	}
	return nil
}

// FillWork checks that a fill stays inside one allocation.
func (s *Copies) FillWork(d *core.Device, fill gpu.Fill) (gpu.Work, error) {
	if fill.Columns == 0 || fill.Rows == 0 {
		return gpu.Fill{PatternBytes: fill.PatternBytes}, nil
	}
	width := fill.Columns * uint64(fill.PatternBytes)
	if fill.Rows > 1 && fill.RowPitch < width {
		return nil, core.Invalid("memset", "the pitch is smaller than a row")
	}
	bytes, ok := span([3]uint64{width, fill.Rows, 1}, fill.RowPitch, 0)
	if !ok {
		return nil, core.Invalid("memset", "the box is larger than the address space")
	}
	if _, err := s.memory.CheckRange(d, gpu.Range{Address: fill.Address, Bytes: bytes}, true); err != nil {
		return nil, err
	}
	return fill, nil
}
