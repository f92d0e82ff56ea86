package simt

import (
	"math/bits"

	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/arith"
	"github.com/phos-gpu/phos/daemon/gpu/soft/simt/code"
	"github.com/phos-gpu/phos/internal/ptx"
)

// exchange executes the instructions that exchange values between the lanes of a warp.
func (w *warp) exchange(in *code.Inst, mask uint32) {
	x := in.X
	if in.Shape == code.ActiveMask {
		w.writeMask(x.Dst[0], mask, mask)
		return
	}
	if !x.Sync {
		w.exchangeAmong(in, mask, fullMask)
		return
	}
	members := w.v32(x.Src[len(x.Src)-1].At)
	if !w.awaitGuardedMembers(members, mask) {
		return
	}
	// Lanes with different members, such as the tiles of a warp, exchange separately.
	for mask != 0 {
		named := members[lowestLane(mask)&31]
		same := uint32(0)
		for m := mask; m != 0; m &= m - 1 {
			if i := bits.TrailingZeros32(m) & 31; members[i] == named {
				same |= 1 << i
			}
		}
		w.exchangeAmong(in, same, named)
		mask &^= same
	}
}

// exchangeAmong executes an exchange for lanes with the same members.
func (w *warp) exchangeAmong(in *code.Inst, mask, members uint32) {
	x := in.X
	switch in.Shape {
	case code.Shuffle:
		w.shuffle(x, mask)
	case code.Vote:
		w.vote(x, mask, members)
	case code.Match:
		w.match(x, mask, members)
	case code.Redux:
		w.redux(x, mask, members)
	case code.Elect:
		w.elect(x, mask, members)
	}
}

// awaitGuardedMembers is awaitMembers for an instruction that may be guarded and whose members
// differ by lane. Lanes whose guard is false have passed the instruction.
func (w *warp) awaitGuardedMembers(members *[warpLanes]uint32, mask uint32) bool {
	named := uint32(0)
	for m := mask; m != 0; m &= m - 1 {
		named |= members[bits.TrailingZeros32(m)&31]
	}
	return w.awaitMembers(named &^ (w.mask &^ mask))
}

// writeMask writes the same 32-bit value to every lane of mask.
func (w *warp) writeMask(ref code.Ref, mask, value uint32) {
	for m := mask; m != 0; m &= m - 1 {
		w.write(ref, bits.TrailingZeros32(m), uint64(value))
	}
}

// shuffle executes shfl. A lane whose source is out of range keeps its own value. If the source
// lane does not take part, the lane reads its register, which the ISA leaves undefined.
func (w *warp) shuffle(x *code.Extra, mask uint32) {
	value := *w.v32(x.Src[0].At)
	offset, control := w.v32(x.Src[1].At), w.v32(x.Src[2].At)
	var result [warpLanes]uint32
	valid := uint32(0)
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		source, ok := shuffleSource(x.Mode, uint32(lane), offset[lane], control[lane])
		result[lane] = value[source&31]
		if ok {
			valid |= 1 << lane
		}
	}
	if !x.Dst[0].Sink {
		blend32(w.v32(x.Dst[0].At), &result, mask)
	}
	if len(x.Dst) > 1 && !x.Dst[1].Sink {
		w.setPredicate(x.Dst[1].At, mask, valid)
	}
}

// shuffleSource returns the lane to read from. control holds the clamp in bits 0-4 and the segment
// mask in bits 8-12.
func shuffleSource(mode ptx.Mode, lane, offset, control uint32) (source uint32, ok bool) {
	offset &= 31
	clamp, segment := control&31, control>>8&31
	highest := lane&segment | clamp&^segment
	switch mode {
	case ptx.ShflUp:
		source = lane - offset
		ok = int32(source) >= int32(highest)
	case ptx.ShflDown:
		source = lane + offset
		ok = source <= highest
	case ptx.ShflBfly:
		source = lane ^ offset
		ok = source <= highest
	default:
		source = lane&segment | offset&^segment
		ok = source <= highest
	}
	if !ok {
		return lane, false
	}
	return source, true
}

// vote executes vote.
func (w *warp) vote(x *code.Extra, mask, members uint32) {
	p := w.predicate(x.Src[0])
	voters := mask & members
	yes := p & voters
	answer := uint32(0)
	switch x.Mode {
	case ptx.VoteBallot:
		w.writeMask(x.Dst[0], mask, yes)
		return
	case ptx.VoteAll:
		answer = allOnes(yes == voters)
	case ptx.VoteAny:
		answer = allOnes(yes != 0)
	case ptx.VoteUni:
		answer = allOnes(yes == voters || yes == 0)
	}
	if !x.Dst[0].Sink {
		w.setPredicate(x.Dst[0].At, mask, answer)
	}
}

// allOnes returns a mask of all lanes or of none.
func allOnes(b bool) uint32 {
	if b {
		return fullMask
	}
	return 0
}

// match executes match: for each lane, the lanes with the same value.
func (w *warp) match(x *code.Extra, mask, members uint32) {
	var value [warpLanes]uint64
	w.readAll(x.Src[0], &value)
	voters := mask & members
	var same [warpLanes]uint32
	for m := voters; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		for n := voters; n != 0; n &= n - 1 {
			if other := bits.TrailingZeros32(n) & 31; value[other] == value[lane] {
				same[lane] |= 1 << other
			}
		}
	}
	allSame := voters != 0 && same[lowestLane(voters)&31] == voters
	for m := mask; m != 0; m &= m - 1 {
		lane := bits.TrailingZeros32(m) & 31
		result := same[lane]
		if x.Mode == ptx.MatchAll && !allSame {
			result = 0
		}
		w.write(x.Dst[0], lane, uint64(result))
	}
	if len(x.Dst) > 1 && !x.Dst[1].Sink {
		w.setPredicate(x.Dst[1].At, mask, allOnes(allSame))
	}
}

// redux executes redux.
func (w *warp) redux(x *code.Extra, mask, members uint32) {
	fold := arith.Reduce(x.Atom, x.Type)
	value := w.v32(x.Src[0].At)
	voters := mask & members
	if voters == 0 {
		return
	}
	sum := uint64(value[lowestLane(voters)&31])
	for m := voters & (voters - 1); m != 0; m &= m - 1 {
		sum = fold(sum, uint64(value[bits.TrailingZeros32(m)&31]))
	}
	w.writeMask(x.Dst[0], mask, uint32(sum))
}

// elect executes elect: it chooses the lowest lane.
func (w *warp) elect(x *code.Extra, mask, members uint32) {
	leader := uint32(lowestLane(mask & members))
	w.writeMask(x.Dst[0], mask, leader)
	if len(x.Dst) > 1 && !x.Dst[1].Sink {
		w.setPredicate(x.Dst[1].At, mask, 1<<leader)
	}
}
