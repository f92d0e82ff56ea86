package session

import (
	"encoding/binary"
	"testing"

	"github.com/phos-gpu/phos/daemon/worker/session/core"
	"github.com/phos-gpu/phos/hijack/abi"
	"github.com/phos-gpu/phos/hijack/wire"
)

const mallocText = `
.extern .func (.param .b64 r) malloc (.param .b64 n);
.visible .entry take(.param .u64 out, .param .u64 bytes)
{
	.reg .b64 %rd<4>;
	ld.param.u64 %rd0, [out];
	ld.param.u64 %rd1, [bytes];
	{
	.param .b64 n;
	.param .b64 r;
	st.param.b64 [n], %rd1;
	call.uni (r), malloc, (n);
	ld.param.b64 %rd2, [r];
	}
	st.global.u64 [%rd0], %rd2;
	ret;
}`

// TestHeapLimit: malloc in kernels takes from a heap as large as the program says before it loads
// them.
func TestHeapLimit(t *testing.T) {
	p := softProgram(t, "soft:1", 1<<20)
	out := p.alloc(8)
	taken := func(f abi.Handle, bytes uint64) bool {
		t.Helper()
		params := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, out), bytes)
		p.ok(abi.CallLaunch, &wire.Launch{
			Function: uint64(f), GridX: 1, GridY: 1, GridZ: 1, BlockX: 1, BlockY: 1, BlockZ: 1, Params: params,
		}, nil)
		if err := p.copyOut(0, out, 8); err != nil {
			t.Fatal(err)
		}
		return binary.LittleEndian.Uint64(p.memory) != 0
	}
	load := func() abi.Handle {
		t.Helper()
		var f wire.ModuleGetFunctionReply
		p.ok(abi.CallModuleGetFunction, &wire.ModuleGetFunction{Hmod: p.load(mallocText), Name: "take"}, &f)
		return f.Hfunc
	}
	normal := load()
	limit := func(bytes uint64) {
		t.Helper()
		p.ok(abi.CallCtxSetLimit, &wire.CtxSetLimit{Limit: core.LimitHeap, Value: bytes}, nil)
	}
	limit(64 << 20)
	large := load()
	limit(1) // no heap is smaller than a page
	small := load()
	for _, test := range []struct {
		name  string
		f     abi.Handle
		bytes uint64
		want  bool
	}{
		{"default", normal, 8 << 20, false},
		{"default", normal, 6 << 20, true},
		{"64 MiB", large, 64 << 20, false},
		{"64 MiB", large, 60 << 20, true},
		{"64 MiB", large, 60 << 20, false},
		{"a page", small, 4096, false},
		{"a page", small, 2048, true},
	} {
		if got := taken(test.f, test.bytes); got != test.want {
			t.Errorf("%s: malloc of %d bytes succeeds: %v, want %v", test.name, test.bytes, got, test.want)
		}
	}
}

// TestLimitsAreRemembered: each context has its own limits, and says what it was told.
func TestLimitsAreRemembered(t *testing.T) {
	p := newProgram(t)
	get := func() (values core.Limits) {
		t.Helper()
		for limit := range int32(core.LimitCount) {
			var out wire.CtxGetLimitReply
			p.ok(abi.CallCtxGetLimit, &wire.CtxGetLimit{Limit: limit}, &out)
			values[limit] = out.Pvalue
		}
		return values
	}
	if got := get(); got != core.DefaultLimits {
		t.Errorf("at first %v, want %v", got, core.DefaultLimits)
	}
	want := core.DefaultLimits
	for limit, value := range map[int32]uint64{core.LimitStack: 4096, core.LimitPrintf: 3 << 20, core.LimitHeap: 5 << 20} {
		p.ok(abi.CallCtxSetLimit, &wire.CtxSetLimit{Limit: limit, Value: value}, nil)
		want[limit] = value
	}
	if got := get(); got != want {
		t.Errorf("then %v, want %v", got, want)
	}
	// cuBLASLt of CUDA 13 asks for limits 8 and 7 at every matmul and takes only these answers.
	for limit := int32(core.LimitCount); limit <= 9; limit++ {
		out := wire.CtxGetLimitReply{Pvalue: 77}
		p.ok(abi.CallCtxGetLimit, &wire.CtxGetLimit{Limit: limit}, &out)
		if out.Pvalue != 0 {
			t.Errorf("limit %d: got %d, want 0", limit, out.Pvalue)
		}
		p.ok(abi.CallCtxSetLimit, &wire.CtxSetLimit{Limit: limit}, nil)
		p.want(abi.UnsupportedLimit, abi.CallCtxSetLimit, &wire.CtxSetLimit{Limit: limit, Value: 1}, nil)
	}
	for _, unknown := range []int32{-1, 10} {
		p.want(abi.InvalidValue, abi.CallCtxSetLimit, &wire.CtxSetLimit{Limit: unknown, Value: 1}, nil)
		p.want(abi.InvalidValue, abi.CallCtxGetLimit, &wire.CtxGetLimit{Limit: unknown}, &wire.CtxGetLimitReply{})
	}
}
