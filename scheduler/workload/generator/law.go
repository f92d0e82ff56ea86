package generator

import (
	"fmt"
	"math"
	"strings"
	"time"
)

// Law is a distribution of lengths.
type Law struct {
	name string
	mean float64 // seconds
	draw func(s *stream) float64
}

// String returns the law in the form that ParseLaw reads.
func (l Law) String() string { return l.name }

// Mean returns the expectation.
func (l Law) Mean() time.Duration { return time.Duration(l.mean * float64(time.Second)) }

// next returns a random length, rounded to the millisecond so that rounding differences between
// processors do not change a trace.
func (l Law) next(s *stream) time.Duration { return milliseconds(l.draw(s)) }

// milliseconds rounds seconds.
func milliseconds(seconds float64) time.Duration {
	return time.Duration(math.Round(seconds*1000)) * time.Millisecond
}

// powerOfTen returns 10 to a power drawn uniformly between two bounds.
func powerOfTen(s *stream, low, high float64) float64 {
	return math.Exp(float64(s.between(low, high) * math.Ln10))
}

// meanPowerOfTen returns the expectation of powerOfTen.
func meanPowerOfTen(low, high float64) float64 {
	return (math.Pow(10, high) - math.Pow(10, low)) / ((high - low) * math.Ln10)
}

// BloxLaw is Blox's distribution (Agarwal et al., EuroSys 2024, after Philly): four jobs of five
// take 60·10^U(1.5,3) s, the fifth 60·10^U(3,4) s. The mean is 60,361 s.
func BloxLaw() Law {
	return Law{
		name: "blox",
		mean: 60 * (0.8*meanPowerOfTen(1.5, 3) + 0.2*meanPowerOfTen(3, 4)),
		draw: func(s *stream) float64 {
			if s.uniform() < 0.8 {
				return 60 * powerOfTen(s, 1.5, 3)
			}
			return 60 * powerOfTen(s, 3, 4)
		},
	}
}

// Exponential is the exponential distribution.
func Exponential(mean time.Duration) Law {
	m := mean.Seconds()
	return Law{"exponential:" + mean.String(), m, func(s *stream) float64 { return m * s.exponential() }}
}

// Uniform is the uniform distribution between two bounds.
func Uniform(least, most time.Duration) Law {
	low, high := least.Seconds(), most.Seconds()
	return Law{
		fmt.Sprintf("uniform:%s-%s", least, most), (low + high) / 2,
		func(s *stream) float64 { return s.between(low, high) },
	}
}

// Fixed gives all jobs the same length.
func Fixed(length time.Duration) Law {
	seconds := length.Seconds()
	return Law{"fixed:" + length.String(), seconds, func(*stream) float64 { return seconds }}
}

// wantLaw lists the laws.
const wantLaw = "blox, exponential:MEAN, uniform:LEAST-MOST or fixed:LENGTH, with times as 90m or 36h"

// ParseLaw parses a law.
func ParseLaw(text string) (Law, error) {
	name, rest, _ := strings.Cut(text, ":")
	var times []time.Duration
	for part := range strings.SplitSeq(rest, "-") {
		d, err := time.ParseDuration(part)
		if rest == "" {
			break
		}
		if err != nil || d <= 0 || d > 10*365*24*time.Hour {
			return Law{}, fmt.Errorf(
				"law of lengths %q: %q is not a time from 1ns to 87600h; the laws are %s",
				text,
				part,
				wantLaw,
			)
		}
		times = append(times, d)
	}
	switch {
	case name == "blox" && len(times) == 0:
		return BloxLaw(), nil
	case name == "exponential" && len(times) == 1:
		return Exponential(times[0]), nil
	case name == "uniform" && len(times) == 2 && times[0] <= times[1]:
		return Uniform(times[0], times[1]), nil
	case name == "fixed" && len(times) == 1:
		return Fixed(times[0]), nil
	}
	return Law{}, fmt.Errorf("unknown law of lengths %q; want %s", text, wantLaw)
}
