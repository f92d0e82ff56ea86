package gputest

import (
	"testing"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// neighbour is a context on the second device, with some memory.
type neighbour struct {
	context gpu.Context
	memory  gpu.Memory
	home    gpu.Range
}

func newNeighbour(t *testing.T, b *bench) *neighbour {
	devices := b.backend.Devices()
	if len(devices) < 2 {
		t.Skip("this backend has one device")
	}
	c, err := b.backend.NewContext(1, gpu.ContextOptions{})
	b.must(err)
	n := &neighbour{c, c.Memory(), gpu.Range{Address: gpu.WindowOf(devices, 1).Address, Bytes: 2 * gpu.ChunkBytes}}
	b.must(n.memory.Map(n.home))
	return n
}

// checkBytes compares bytes of the neighbour's memory, at an offset from its beginning.
func (n *neighbour) checkBytes(b *bench, what string, offset uint64, want []byte) {
	b.t.Helper()
	got := make([]byte, len(want))
	_, err := n.memory.ReadAt(got, int64(n.home.Address+offset))
	b.must(err)
	b.same(what, got, want)
}

func (n *neighbour) place(offset uint64) gpu.Place {
	return gpu.Place{Host: n.memory, Address: n.home.Address + offset}
}

// testPeerCopies checks copies and fills, which work whether or not the devices may access each
// other's memory.
func testPeerCopies(t *testing.T, b *bench) {
	n := newNeighbour(t, b)
	data := noise(31, 1<<20)
	_, err := n.memory.WriteAt(data, int64(n.home.Address))
	b.must(err)
	at := b.alloc(len(data))
	b.run(linear(device(at), n.place(0), len(data)))
	b.same("a copy from the other device", b.read(at, len(data)), data)

	b.write(at, []byte("from here, in this order"))
	b.run(linear(n.place(100), device(at), 24), linear(n.place(105), n.place(100), 4),
		gpu.Fill{Address: n.home.Address + 111, Pattern: '-', PatternBytes: 1, Columns: 2, Rows: 1},
		linear(device(at), n.place(100), 24))
	b.same("copies and a fill, one after the other", b.read(at, 24), []byte("from from, -- this order"))
	n.checkBytes(b, "the other device's memory", 100, []byte("from from, -- this order"))

	fill := gpu.Fill{Address: n.home.Address + 100, Pattern: '+', PatternBytes: 1, Columns: 4, Rows: 1}
	graph, err := b.context.Instantiate(
		&gpu.Graph{Nodes: []gpu.Node{{Work: fill}, {Work: linear(device(at), n.place(100), 24), After: []int{0}}}},
	)
	b.must(err)
	s := b.newStream()
	b.must(graph.Launch(s))
	b.must(s.Synchronize())
	b.same("a fill and a copy in a graph", b.read(at, 24), []byte("++++ from, -- this order"))
	b.must(graph.Close())

	box := gpu.Copy{Dst: n.place(1 << 19), Src: device(at), Extent: [3]uint64{300, 7, 2}}
	box.Dst.RowPitch, box.Dst.SlicePitch, box.Src.RowPitch, box.Src.SlicePitch = 512, 8192, 300, 2100
	b.run(box)
	content := b.read(at, 4200)
	for slice := range uint64(2) {
		for row := range uint64(7) {
			n.checkBytes(b, "a row of a box", 1<<19+slice*8192+row*512, content[slice*2100+row*300:][:300])
		}
	}
	box.Dst, box.Src = box.Src, box.Dst
	box.Dst.Address = b.alloc(4200)
	b.run(box)
	b.same("the box copied back", b.read(box.Dst.Address, 4200), content)
}

// testPeerAccess accesses one device's memory in kernels of another.
func testPeerAccess(t *testing.T, b *bench) {
	n := newNeighbour(t, b)
	b.needsPeerAccess(t)
	peering, ok := b.context.(gpu.Peering)
	if ok {
		b.want("a device and itself", peering.AllowPeer(0, true), abi.InvalidDevice)
		b.want("no device", peering.AllowPeer(99, true), abi.InvalidDevice)
		b.must(peering.AllowPeer(1, true))
		b.must(peering.AllowPeer(1, true))
	}
	store := b.kernel("store")
	b.run(launch(store, 1, 1, n.home.Address+64, uint32(77)))
	n.checkBytes(b, "a store of another device's kernel", 64, words(77))
	later := gpu.Range{Address: n.home.End(), Bytes: gpu.ChunkBytes}
	b.must(n.memory.Map(later))
	b.run(launch(store, 1, 1, later.Address, uint32(78)),
		gpu.Fill{Address: later.Address + 4, Pattern: 79, PatternBytes: 4, Columns: 1, Rows: 1})
	n.checkBytes(b, "stores to memory mapped later", n.home.Bytes, words(78, 79))
	if ok {
		b.must(peering.AllowPeer(1, false))
		b.must(peering.AllowPeer(1, true))
		b.run(launch(store, 1, 1, later.Address, uint32(80)))
		n.checkBytes(b, "a store after permission was granted again", n.home.Bytes, words(80))
	}
}

// testPeerHost maps host memory on two devices and closes the context of one. The other must keep
// the mapping, whichever was first.
func testPeerHost(t *testing.T, b *bench) {
	for i, address := range []uint64{0x6300_0000_0000, 0x6400_0000_0000} {
		n := newNeighbour(t, b)
		host := b.hostMemory(uintptr(address), 1<<16)
		both := []gpu.Memory{b.context.Memory(), n.memory}
		b.must(both[i].MapHost(address, host))
		b.must(both[1-i].MapHost(address, host))
		b.must(n.context.Close())
		b.run(launch(b.kernel("store"), 1, 1, address+64, uint32(77+i)))
		b.same("a store into host memory", host[64:68], words(uint32(77+i)))
		b.must(b.context.Memory().UnmapHost(address))
	}
}

// needsPeerAccess skips the test if the first device cannot be allowed to access the second one's
// memory.
func (b *bench) needsPeerAccess(t *testing.T) {
	if b.backend.Devices()[0].Attributes[abi.AttrPeers]&2 == 0 {
		t.Skip("these devices cannot access each other's memory")
	}
}

// testPeerFault accesses another device's memory after permission was revoked.
func testPeerFault(t *testing.T, b *bench) {
	n := newNeighbour(t, b)
	b.needsPeerAccess(t)
	peering, ok := b.context.(gpu.Peering)
	if !ok {
		t.Skip("kernels of this backend can always access other devices")
	}
	store := b.kernel("store")
	b.must(peering.AllowPeer(1, true))
	b.run(launch(store, 1, 1, n.home.Address, uint32(77)))
	b.must(peering.AllowPeer(1, false))
	s := b.newStream()
	_ = s.Submit(launch(store, 1, 1, n.home.Address, uint32(78)))
	b.want("a store after permission was revoked", s.Synchronize(), abi.IllegalAddress)
}
