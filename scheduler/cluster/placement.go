package cluster

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// String writes a placement compactly: groups of nodes with equal GPUs, separated by semicolons,
// each as NODES:GPUS. Both are a number, or a range A-B; several of them are joined by +. So
// "0-3:0-7;5:0+2-3" is all eight GPUs of the nodes 0 to 3, and GPUs 0, 2 and 3 of node 5.
func (p Placement) String() string { return string(p.AppendText(nil)) }

// AppendText appends what String returns.
func (p Placement) AppendText(to []byte) []byte {
	for i := 0; i < len(p); {
		gpus := p.onNode(i)
		last := p[i].Node
		end := i + len(gpus)
		for end < len(p) && p[end].Node == last+1 && sameIndices(gpus, p.onNode(end)) {
			last++
			end += len(gpus)
		}
		if i > 0 {
			to = append(to, ';')
		}
		to = append(appendRange(to, int64(p[i].Node), int64(last)), ':')
		to = gpus.appendIndices(to)
		i = end
	}
	return to
}

// onNode returns the GPUs of one node, which begin at an index.
func (p Placement) onNode(from int) Placement {
	to := from + 1
	for to < len(p) && p[to].Node == p[from].Node {
		to++
	}
	return p[from:to]
}

// sameIndices reports whether two nodes' GPUs have the same indices.
func sameIndices(a, b Placement) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		if a[i].Index != b[i].Index {
			return false
		}
	}
	return true
}

// appendIndices appends the indices of one node's GPUs.
func (p Placement) appendIndices(to []byte) []byte {
	for i := 0; i < len(p); {
		end := i + 1
		for end < len(p) && p[end].Index == p[end-1].Index+1 {
			end++
		}
		if i > 0 {
			to = append(to, '+')
		}
		to = appendRange(to, int64(p[i].Index), int64(p[end-1].Index))
		i = end
	}
	return to
}

// appendRange appends A, or A-B.
func appendRange(to []byte, a, b int64) []byte {
	to = strconv.AppendInt(to, a, 10)
	if b > a {
		to = strconv.AppendInt(append(to, '-'), b, 10)
	}
	return to
}

// maxPlacement bounds the GPUs of a placement that is parsed: a short text could name billions.
const maxPlacement = 1 << 22

// ErrPlacement is returned for a text that is not a placement.
var ErrPlacement = errors.New("not a placement such as 0-3:0-7;5:0+2-3")

// ParsePlacement parses what String returns. GPUs must be in order, each once.
func ParsePlacement(text string) (p Placement, err error) {
	if text == "" {
		return nil, nil
	}
	for group := range strings.SplitSeq(text, ";") {
		nodes, indices, found := strings.Cut(group, ":")
		first, last, ok := parseRange(nodes)
		if !found || !ok {
			return nil, ErrPlacement
		}
		var gpus []int32
		for each := range strings.SplitSeq(indices, "+") {
			from, to, ok := parseRange(each)
			if !ok || int64(to)-int64(from) >= maxPlacement || len(gpus) > maxPlacement {
				return nil, ErrPlacement
			}
			for i := from; i <= to; i++ {
				gpus = append(gpus, i)
			}
		}
		if (int64(last)-int64(first)+1)*int64(len(gpus)) > maxPlacement-int64(len(p)) {
			return nil, fmt.Errorf("%w: more than %d GPUs", ErrPlacement, maxPlacement)
		}
		for node := first; node <= last; node++ {
			for _, index := range gpus {
				gpu := GPU{Node: NodeID(node), Index: index}
				if n := len(p); n > 0 && !p[n-1].before(gpu) {
					return nil, fmt.Errorf("%w: GPUs are out of order, or named twice", ErrPlacement)
				}
				p = append(p, gpu)
			}
		}
	}
	return p, nil
}

// before reports whether g is sorted before another GPU.
func (g GPU) before(other GPU) bool {
	return g.Node < other.Node || g.Node == other.Node && g.Index < other.Index
}

// parseRange parses A or A-B, with A < B < 2^31-1.
func parseRange(text string) (from, to int32, ok bool) {
	first, last, isRange := strings.Cut(text, "-")
	a, err := strconv.ParseUint(first, 10, 31)
	b, errLast := a, error(nil)
	if isRange {
		b, errLast = strconv.ParseUint(last, 10, 31)
	}
	ok = err == nil && errLast == nil && b < math.MaxInt32 && (!isRange && a == b || isRange && a < b)
	return int32(a), int32(b), ok
}
