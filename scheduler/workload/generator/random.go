package generator

import "math"

// stream is a sequence of random numbers: SplitMix64 (Steele, Lea and Flood, OOPSLA 2014).
//
// It does not use math/rand, because a generated trace is cited by its seed: a later release of Go
// may generate the exponential distribution differently, which would silently change the trace.
// SplitMix64 passes BigCrush and takes five lines in any language.
type stream struct{ state uint64 }

// next returns 64 random bits.
func (s *stream) next() uint64 {
	s.state += 0x9e3779b97f4a7c15
	z := s.state
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

// uniform returns a number in [0, 1), with 53 random bits.
func (s *stream) uniform() float64 { return float64(s.next()>>11) / (1 << 53) }

// exponential returns an exponential variable with mean 1.
func (s *stream) exponential() float64 { return -math.Log(1 - s.uniform()) }

// between returns a uniform number in [low, high).
func (s *stream) between(low, high float64) float64 { return low + float64(s.uniform()*(high-low)) }

// The purposes of a trace's streams. Each property has its own stream, so that a trace at another
// load has the same jobs at other times: a difference between two results is then caused by the
// load.
const (
	forArrivals uint64 = iota + 1
	forLengths
	forSizes
	forTenants
	forBursts
	forEstimates
	forTypes
	forModels
)

// newStream returns the stream of a seed for a purpose.
func newStream(seed, purpose uint64) *stream {
	mix := stream{state: seed}
	mix.state = mix.next() ^ purpose*0xd1342543de82ef95
	return &stream{state: mix.next()}
}
