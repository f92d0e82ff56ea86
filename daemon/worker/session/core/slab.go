package core

import (
	"slices"
)

// slab copies small byte slices into large blocks, which costs a fraction of an allocation each.
type slab struct{ room []byte }

const slabBytes = 64 << 10

func (k *slab) Keep(b []byte) []byte {
	if len(b) > len(k.room) {
		if len(b) > slabBytes/4 {
			return slices.Clone(b)
		}
		k.room = make([]byte, slabBytes)
	}
	n := copy(k.room, b)
	kept := k.room[:n:n]
	k.room = k.room[(n+7)&^7:]
	return kept
}
