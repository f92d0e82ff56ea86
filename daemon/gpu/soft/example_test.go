package soft_test

import (
	"encoding/binary"
	"errors"
	"fmt"
	"log"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/daemon/gpu/soft"
)

// squarePTX replaces each word of data by its square, one thread per word.
const squarePTX = `
.version 8.0
.target sm_90
.address_size 64
.visible .entry square(.param .u64 data)
{
	.reg .b32 %i, %v;
	.reg .b64 %p;
	ld.param.u64 %p, [data];
	mov.u32 %i, %tid.x;
	mad.wide.u32 %p, %i, 4, %p;
	ld.global.u32 %v, [%p];
	mul.lo.u32 %v, %v, %v;
	st.global.u32 [%p], %v;
	ret;
}`

// hostBuffer is the host side of a copy. In phos it is the memory of the program.
type hostBuffer []byte

func (b hostBuffer) ReadAt(p []byte, at int64) (int, error)  { return copy(p, b[at:]), nil }
func (b hostBuffer) WriteAt(p []byte, at int64) (int, error) { return copy(b[at:], p), nil }

// Example runs a PTX kernel on one software GPU: it copies words to the device, launches the kernel
// and copies the results back. All work is queued in a stream and waited for once.
func Example() {
	backend, err := soft.Open("soft:1,memory=16MiB", soft.Options{})
	if err != nil {
		log.Fatal(err)
	}
	defer backend.Close()
	device, err := backend.NewContext(0, gpu.ContextOptions{})
	if err != nil {
		log.Fatal(err)
	}
	module, err := device.LoadModule(gpu.Image{PTX: []string{squarePTX}}, gpu.LoadOptions{})
	if err != nil {
		log.Fatal(err)
	}
	square, err := module.Function("square")
	if err != nil {
		log.Fatal(err)
	}
	stream, err := device.NewStream(gpu.StreamOptions{})
	if err != nil {
		log.Fatal(err)
	}

	// The caller chooses device addresses and maps whole chunks.
	data := gpu.Range{Address: gpu.DefaultWindow(0, 1).Address, Bytes: gpu.ChunkBytes}
	if err := device.Memory().Map(data); err != nil {
		log.Fatal(err)
	}
	words := hostBuffer{}
	for i := range uint32(8) {
		words = binary.LittleEndian.AppendUint32(words, i)
	}
	host, memory := gpu.Place{Host: words}, gpu.Place{Address: data.Address}
	extent := [3]uint64{uint64(len(words)), 1, 1}
	launch := gpu.Launch{
		Function: square,
		Grid:     [3]uint32{1, 1, 1},
		Block:    [3]uint32{8, 1, 1},
		Params:   binary.LittleEndian.AppendUint64(nil, data.Address),
	}
	err = errors.Join(
		stream.Submit(gpu.Copy{Dst: memory, Src: host, Extent: extent}),
		stream.Submit(launch),
		stream.Submit(gpu.Copy{Dst: host, Src: memory, Extent: extent}),
		stream.Synchronize(), // returns the fault if the kernel failed
	)
	if err != nil {
		log.Fatal(err)
	}
	for at := 0; at < len(words); at += 4 {
		fmt.Print(binary.LittleEndian.Uint32(words[at:]), " ")
	}
	// Output: 0 1 4 9 16 25 36 49
}
