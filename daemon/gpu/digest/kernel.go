package digest

import (
	_ "embed" // kernel.ptx
	"encoding/binary"
	"fmt"
	"sync"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

//go:embed kernel.ptx
var kernelText string

const threadsPerBlock = 256

// bytesPerChunk is a chunk's share of a Kernel's memory: its address and its digest.
const bytesPerChunk = 8 + 16

// Launcher is the part of gpu.Context that the kernel needs.
type Launcher interface {
	LoadModule(image gpu.Image, options gpu.LoadOptions) (gpu.Module, error)
	NewStream(options gpu.StreamOptions) (gpu.Stream, error)
}

// Kernel digests chunks in place on a GPU. It is safe for concurrent use.
type Kernel struct {
	module   gpu.Module
	function gpu.Function
	stream   gpu.Stream
	// area is device memory for the key stream, the addresses of capacity chunks, and their
	// digests, in this order.
	area     gpu.Range
	capacity int
	blocks   int // that fit on the device at once; 0 if unknown

	mu    sync.Mutex
	key   gpu.DigestKey // of the key stream in the area
	keyed bool
}

// Image returns the kernel's code.
func Image() gpu.Image { return gpu.Image{PTX: []string{kernelText}} }

// Load loads the kernel into a context. area is mapped device memory that nothing else uses; 2 MiB
// are enough for 160 GiB of chunks at once. multiprocessors is the device's number of them, 0 for
// one block per chunk.
func Load(context Launcher, area gpu.Range, multiprocessors int) (_ *Kernel, err error) {
	k := &Kernel{area: area}
	if room := keysBytes + 8; area.Bytes > uint64(room) { // 8 bytes may be lost between addresses and digests
		k.capacity = int((area.Bytes - uint64(room)) / bytesPerChunk)
	}
	if k.capacity == 0 || area.Address%16 != 0 {
		return nil, fmt.Errorf("digest kernel: %d bytes of memory at %#x: %w", area.Bytes, area.Address, abi.InvalidValue)
	}
	k.module, err = context.LoadModule(Image(), gpu.LoadOptions{})
	if err != nil {
		return nil, fmt.Errorf("load digest kernel: %w", err)
	}
	if err := k.prepare(context, multiprocessors); err != nil {
		_ = k.Close()
		return nil, fmt.Errorf("load digest kernel: %w", err)
	}
	return k, nil
}

// prepare finds the function and creates the kernel's stream.
func (k *Kernel) prepare(context Launcher, multiprocessors int) (err error) {
	if k.function, err = k.module.Function("digest_chunks"); err != nil {
		return err
	}
	active, err := k.function.ActiveBlocks(threadsPerBlock, 0)
	if err != nil {
		return err
	}
	k.blocks = active * multiprocessors
	k.stream, err = context.NewStream(gpu.StreamOptions{NonBlocking: true})
	return err
}

// Digests returns the digest of each chunk, given by address. All chunks must be mapped until it
// returns: if the kernel cannot read one, the context is poisoned.
func (k *Kernel) Digests(key gpu.DigestKey, chunks []uint64) ([]gpu.Digest, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	digests := make([]gpu.Digest, 0, len(chunks))
	for len(chunks) > 0 {
		n := min(len(chunks), k.capacity)
		some, err := k.launch(key, chunks[:n])
		if err != nil {
			k.keyed = false // the key may not have been copied
			return nil, fmt.Errorf("digest %d chunks: %w", n, err)
		}
		digests, chunks = append(digests, some...), chunks[n:]
	}
	return digests, nil
}

// launch digests at most capacity chunks.
func (k *Kernel) launch(key gpu.DigestKey, chunks []uint64) ([]gpu.Digest, error) {
	addresses := make(region, 0, 8*len(chunks))
	for _, address := range chunks {
		addresses = binary.LittleEndian.AppendUint64(addresses, address)
	}
	results := make(region, 16*len(chunks))
	list := k.area.Address + keysBytes
	out := (list + uint64(len(addresses)) + 15) &^ 15
	params := binary.LittleEndian.AppendUint64(nil, list)
	params = binary.LittleEndian.AppendUint64(params, out)
	params = binary.LittleEndian.AppendUint64(params, k.area.Address)
	params = binary.LittleEndian.AppendUint32(params, uint32(len(chunks)))
	work := []gpu.Work{
		addresses.copyTo(list),
		gpu.Launch{
			Function: k.function, Params: params,
			Grid: [3]uint32{k.grid(len(chunks)), 1, 1}, Block: [3]uint32{threadsPerBlock, 1, 1},
		},
		results.copyFrom(out),
	}
	if !k.keyed || k.key != key {
		work = append([]gpu.Work{region(keyStream(key)).copyTo(k.area.Address)}, work...)
	}
	for _, w := range work {
		if err := k.stream.Submit(w); err != nil {
			return nil, err
		}
	}
	if err := k.stream.Synchronize(); err != nil {
		return nil, err
	}
	k.key, k.keyed = key, true
	digests := make([]gpu.Digest, len(chunks))
	for i := range digests {
		copy(digests[i][:], results[16*i:])
	}
	return digests, nil
}

// grid returns the number of blocks for a number of chunks.
func (k *Kernel) grid(chunks int) uint32 {
	if k.blocks > 0 {
		return uint32(min(chunks, k.blocks))
	}
	return uint32(chunks)
}

// Close unloads the kernel. The caller still owns the area.
func (k *Kernel) Close() error {
	if k.stream != nil {
		if err := k.stream.Close(); err != nil {
			return err
		}
	}
	return k.module.Close()
}
