package meeting

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/phos-gpu/phos/tests/harness/rounds"
)

// errDisk is a failure of a part.
var errDisk = errors.New("disk full")

// said is what a meeting answers to one call.
type said struct {
	verdict Verdict
	tell    []int
}

// checkSaid compares an answer with the wanted one. A failure is for whatever step a part waits at.
func checkSaid(t *testing.T, what string, v Verdict, tell []int, want said) {
	t.Helper()
	w := want.verdict
	same := errors.Is(v.Failed, w.Failed) && v.Again == w.Again && (v.Failed != nil || v.Step == w.Step)
	if !same || !slices.Equal(tell, want.tell) {
		t.Errorf("%s: %+v for %v, want %+v for %v", what, v, tell, want.verdict, want.tell)
	}
}

// TestCourse: all are told once the last one is there, and a part that says it again hears it
// again.
func TestCourse(t *testing.T) {
	m := New(Number{3, true}, []int{0, 2, 5})
	for _, test := range []struct {
		part  int
		point string
		step  int
		busy  string
		want  said
	}{
		{0, "ready", 1, "", said{}},
		{5, "ready", 1, "", said{}},
		{5, "ready", 1, "", said{}}, // it says it again
		{2, "ready", 1, "", said{Verdict{Step: 1}, []int{0, 2, 5}}},
		{5, "ready", 1, "", said{Verdict{Step: 1}, []int{5}}}, // the verdict was lost
		{5, "quiesced", 2, "a kernel runs", said{}},
		{0, "quiesced", 2, "", said{}},
		{2, "quiesced", 2, "", said{Verdict{2, true, nil}, []int{0, 2, 5}}},
		{0, "quiesced", 2, "", said{Verdict{2, true, nil}, []int{0}}},
		{0, "quiesced", 3, "", said{}},
		{2, "quiesced", 3, "", said{}},
		{5, "quiesced", 3, "", said{Verdict{Step: 3}, []int{0, 2, 5}}},
	} {
		what := fmt.Sprintf("part %d at %s, step %d", test.part, test.point, test.step)
		v, tell := m.Arrive(test.part, Arrival{test.step, test.point, test.busy})
		checkSaid(t, what, v, tell, test.want)
	}
	if m.Failed() != nil {
		t.Errorf("it has failed: %v", m.Failed())
	}
}

// TestFails: those that wait are told at once, the others when they arrive. The first reason
// counts.
func TestFails(t *testing.T) {
	m := New(Number{Number: 1}, []int{0, 1, 2})
	m.Arrive(2, Arrival{Step: 1, Point: "ready"})
	m.Arrive(0, Arrival{Step: 1, Point: "ready"})
	v, tell := m.Fail(errDisk)
	checkSaid(t, "at the failure", v, tell, said{Verdict{Failed: errDisk}, []int{0, 2}})
	v, tell = m.Fail(ErrApart)
	checkSaid(t, "at another one", v, tell, said{Verdict{Failed: errDisk}, nil})
	v, tell = m.Arrive(1, Arrival{Step: 1, Point: "ready"})
	checkSaid(t, "later", v, tell, said{Verdict{Step: 1, Failed: errDisk}, []int{1}})
	if !errors.Is(m.Failed(), errDisk) {
		t.Errorf("it says that it has failed because of %v", m.Failed())
	}
}

// TestApart: parts at different steps or points make no cut, and one that is not among them neither
// makes one nor ends it.
func TestApart(t *testing.T) {
	for name, other := range map[string]Arrival{
		"another step": {Step: 1, Point: "frozen"}, "another point": {Step: 2, Point: "cut"},
		"both": {Step: 1, Point: "ready"},
	} {
		m := New(Number{Number: 1}, []int{0, 1})
		v, tell := m.Arrive(7, Arrival{Step: 2, Point: "frozen"})
		checkSaid(t, name+": a stranger", v, tell, said{Verdict{Step: 2, Failed: ErrApart}, []int{7}})
		m.Arrive(1, Arrival{Step: 2, Point: "frozen"})
		v, tell = m.Arrive(0, other)
		checkSaid(t, name, v, tell, said{Verdict{Failed: ErrApart}, []int{0, 1}})
	}
}

// points are those of a checkpoint, in their order.
var points = []string{"ready", "quiesced", "frozen", "cut", "complete"}

// part is a save as an agent makes it. It remembers its own course alone.
type part struct {
	step  int
	point int // of points
	// waits means that it has arrived, and was not told yet. news are verdicts on their way to it.
	waits bool
	busy  string
	news  []Verdict
	// through and undone are its two ends.
	through, undone bool
}

// over reports whether a part waits for nothing any longer.
func (p *part) over() bool { return p.through || p.undone }

// play is a meeting with its parts, and what an onlooker has seen.
type play struct {
	*testing.T
	random  *rand.Rand
	meeting *Meeting
	numbers []int
	parts   map[int]*part
	// seen has, by step and point, the parts that have arrived there, and whether one was busy.
	seen map[string]map[int]bool
	// told has the verdicts by their steps.
	told map[int]Verdict
	// failed means that some part has failed.
	failed bool
}

// newPlay returns a meeting of some parts.
func newPlay(t *testing.T, seed uint64) *play {
	p := &play{
		T: t, random: rand.New(rand.NewPCG(seed, 3)), parts: map[int]*part{},
		seen: map[string]map[int]bool{}, told: map[int]Verdict{},
	}
	for range 1 + p.random.IntN(4) {
		number := p.random.IntN(9)
		if p.parts[number] == nil {
			p.parts[number] = &part{}
			p.numbers = append(p.numbers, number)
		}
	}
	slices.Sort(p.numbers)
	p.meeting = New(Number{1, true}, p.numbers)
	return p
}

// at names a step at a point.
func at(step int, point string) string { return fmt.Sprint(step, " ", point) }

// say tells the meeting where a part is.
func (p *play) say(number int) {
	one := p.parts[number]
	now := Arrival{one.step, points[one.point], one.busy}
	if p.seen[at(now.Step, now.Point)] == nil {
		p.seen[at(now.Step, now.Point)] = map[int]bool{}
	}
	p.seen[at(now.Step, now.Point)][number] = now.Busy != ""
	p.hear(p.meeting.Arrive(number, now))
}

// hear checks what the meeting says, and sends it to the parts.
func (p *play) hear(v Verdict, tell []int) {
	for _, number := range tell {
		one := p.parts[number]
		if v.Failed == nil {
			p.checkVerdict(number, v)
		}
		one.news = append(one.news, v)
	}
}

// checkVerdict checks a verdict by which a part goes on or tries again.
func (p *play) checkVerdict(number int, v Verdict) {
	one := p.parts[number]
	if one.waits && one.step == v.Step {
		there := p.seen[at(v.Step, points[one.point])]
		busy := false
		for _, other := range p.numbers {
			was, arrived := there[other]
			if !arrived {
				p.Errorf("part %d is told at %s, step %d, where part %d never was", number, points[one.point], v.Step, other)
			}
			busy = busy || was
		}
		if busy != v.Again {
			p.Errorf("step %d: again %v, and one is busy %v", v.Step, v.Again, busy)
		}
	}
	if before, known := p.told[v.Step]; known && before.Again != v.Again {
		p.Errorf("step %d: told %+v, before %+v", v.Step, v, before)
	}
	p.told[v.Step] = v
	if p.failed {
		p.Errorf("after a failure, part %d is told %+v", number, v)
	}
}

// arrive lets a part that works come to its next point, sometimes busy.
func (p *play) arrive(number int) {
	one := p.parts[number]
	if one.waits || one.over() {
		return
	}
	one.step++
	one.waits, one.busy = true, ""
	if one.point > 0 && points[one.point] != "complete" && p.random.IntN(8) == 0 {
		one.busy = "a kernel runs"
	}
	p.say(number)
}

// deliver gives a part the oldest verdict that is on its way.
func (p *play) deliver(number int) {
	one := p.parts[number]
	if len(one.news) == 0 {
		return
	}
	v := one.news[0]
	one.news = one.news[1:]
	if !one.waits || v.Step != one.step && v.Failed == nil {
		return // it is not for where it waits
	}
	one.waits = false
	switch {
	case v.Failed != nil:
		one.undone = true
	case v.Again:
		one.point = 1
	case one.busy != "":
		p.Errorf("part %d is busy, and is told to go on", number)
	case points[one.point] == "complete":
		one.through = true
	default:
		one.point++
	}
}

// act lets one thing happen.
func (p *play) act() {
	number := p.numbers[p.random.IntN(len(p.numbers))]
	one := p.parts[number]
	switch p.random.IntN(12) {
	case 0: // a stream begins again
		one.news = nil
		if one.waits {
			p.say(number)
		}
	case 1:
		if one.waits {
			p.say(number)
		}
	case 2:
		if p.random.IntN(15) == 0 && !one.over() && !one.waits {
			one.undone, p.failed = true, true
			p.hear(p.meeting.Fail(errDisk))
		}
	default:
		p.arrive(number)
		if p.random.IntN(2) == 0 {
			p.deliver(number)
		}
	}
}

// settle lets the rest happen, without further trouble.
func (p *play) settle() {
	for range 40 * len(points) {
		for _, number := range p.numbers {
			p.arrive(number)
			if one := p.parts[number]; one.waits && len(one.news) == 0 {
				p.say(number)
			}
			p.deliver(number)
		}
	}
	through := 0
	for _, number := range p.numbers {
		one := p.parts[number]
		if !one.over() {
			p.Errorf("part %d still waits at %s, step %d: %+v", number, points[one.point], one.step, *one)
		}
		if one.through {
			through++
		}
	}
	if through > 0 && through < len(p.numbers) && !p.failed {
		p.Errorf("%d of %d parts are through, and none has failed", through, len(p.numbers))
	}
	if !p.failed && through == 0 {
		p.Errorf("no part has failed, and there is no cut: %v", p.meeting.Failed())
	}
}

// TestAnyOrder: whatever comes in which order, late, twice or not at all, no part goes on before
// all are at the same step and point with none busy, each step has one verdict, and each part that
// waits is told in the end.
func TestAnyOrder(t *testing.T) {
	whole := 0
	count := rounds.Of(2000, 20000)
	for seed := range uint64(count) {
		p := newPlay(t, seed)
		for range p.random.IntN(120) {
			p.act()
		}
		p.settle()
		if !p.failed {
			whole++
		}
		if t.Failed() {
			t.Fatalf("seed %d", seed)
		}
	}
	if whole < count/4 || whole == count {
		t.Errorf("%d of %d cuts are whole: the rounds say little", whole, count)
	}
}

// TestBeginsAgain: a part whose agent has died begins from its first step. It goes on with the
// others only from where they are, and otherwise all hear that there is no cut.
func TestBeginsAgain(t *testing.T) {
	for reached := range points {
		m := New(Number{1, true}, []int{0, 1})
		for step := range reached {
			m.Arrive(0, Arrival{Step: step + 1, Point: points[step]})
			m.Arrive(1, Arrival{Step: step + 1, Point: points[step]})
		}
		m.Arrive(0, Arrival{Step: reached + 1, Point: points[reached]})
		v, tell := m.Arrive(1, Arrival{Step: 1, Point: points[0]})
		switch reached {
		case 0:
			checkSaid(t, "at the beginning", v, tell, said{Verdict{Step: 1}, []int{0, 1}})
		case 1: // it catches up
			checkSaid(t, "at the second step", v, tell, said{Verdict{Step: 1}, []int{1}})
			v, tell = m.Arrive(1, Arrival{Step: 2, Point: points[1]})
			checkSaid(t, "with the other one", v, tell, said{Verdict{Step: 2}, []int{0, 1}})
		default:
			checkSaid(t, points[reached], v, tell, said{Verdict{Failed: ErrApart}, []int{0, 1}})
		}
	}
}
