package lanes

import (
	"encoding/binary"
	"math/rand/v2"
	"reflect"
	"testing"
)

// TestWhole checks that 16 bytes of each lane of a mask move, aligned or not, and that nothing else
// is written.
func TestWhole(t *testing.T) {
	t.Run("fast", func(t *testing.T) { movesWhole(t, Load128, Store128) })
	t.Run("portable", func(t *testing.T) { movesWhole(t, loadHalves, storeHalves) })
}

func movesWhole(t *testing.T, load, store func(*V128, *Pointers, uintptr, uint32)) {
	random := rand.New(rand.NewPCG(7, 8))
	for range 200 {
		distance, mask := uintptr(random.IntN(32)), random.Uint32()
		var there, want [32][64]byte
		var memory Pointers
		var v, got V128
		for i := range memory {
			memory[i] = reflect.ValueOf(&there[i]).UnsafePointer()
			if mask>>i&1 == 0 {
				continue
			}
			v[i] = [2]uint64{random.Uint64(), random.Uint64()}
			binary.LittleEndian.PutUint64(want[i][distance:], v[i][0])
			binary.LittleEndian.PutUint64(want[i][distance+8:], v[i][1])
		}
		if store(&v, &memory, distance, mask); there != want {
			t.Fatalf("mask %#x at %d: wrote %x, want %x", mask, distance, there, want)
		}
		if load(&got, &memory, distance, mask); got != v {
			t.Fatalf("mask %#x at %d: read %x, want %x", mask, distance, got, v)
		}
	}
}
