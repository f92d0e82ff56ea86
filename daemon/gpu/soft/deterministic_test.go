package soft

import (
	"encoding/binary"
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
)

// sumPTX adds 1/(i+1) of every thread into one float with atomics, so the result depends on the
// order of the additions.
const sumPTX = `
.version 7.0
.target sm_70
.address_size 64
.visible .entry sum(.param .u64 out, .param .u32 seed)
{
	.reg .b32 %r<6>;
	.reg .b64 %a;
	.reg .f32 %f<4>;
	ld.param.u64 %a, [out];
	ld.param.u32 %r5, [seed];
	mov.u32 %r1, %ctaid.x;
	mov.u32 %r2, %ntid.x;
	mov.u32 %r3, %tid.x;
	mad.lo.u32 %r4, %r1, %r2, %r3;
	add.u32 %r4, %r4, %r5;
	cvt.rn.f32.u32 %f1, %r4;
	add.f32 %f1, %f1, 0f3F800000;
	rcp.rn.f32 %f2, %f1;
	atom.global.add.f32 %f3, [%a], %f2;
	ret;
}`

// TestDeterministicBits checks that races within a kernel and between streams give the same bits in
// every run of a deterministic GPU.
func TestDeterministicBits(t *testing.T) {
	run := func() [4]byte {
		b := open(t, "soft:1,deterministic", Options{})
		defer b.Close()
		c := newTestContext(t, b, 0)
		must(t, c.Memory().Map(chunks(0, 0, 1)))
		m, err := c.LoadModule(gpu.Image{PTX: []string{sumPTX}}, gpu.LoadOptions{})
		must(t, err)
		f, err := m.Function("sum")
		must(t, err)
		out := chunks(0, 0, 1).Address
		streams := []gpu.Stream{newTestStream(t, c), newTestStream(t, c)}
		for i := range 20 {
			params := binary.LittleEndian.AppendUint64(nil, out)
			params = binary.LittleEndian.AppendUint32(params, uint32(i*1000))
			must(
				t,
				streams[i%2].Submit(
					gpu.Launch{Function: f, Grid: [3]uint32{30, 1, 1}, Block: [3]uint32{128, 1, 1}, Params: params},
				),
			)
		}
		must(t, c.Synchronize())
		var bits [4]byte
		_, err = c.Memory().ReadAt(bits[:], int64(out))
		must(t, err)
		return bits
	}
	first := run()
	if first == [4]byte{} {
		t.Error("sum is zero")
	}
	for range 5 {
		if again := run(); again != first {
			t.Errorf("got % x, want % x as in the first run", again, first)
		}
	}
}
