package why

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/internal/words"
	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Text returns the answer in short English, a line for each reason.
func (a *Answer) Text() []string {
	if a.Phase == scheduler.Running {
		return []string{fmt.Sprintf("it runs since %s on %v", words.Span(a.Now-a.Since), a.On)}
	}
	lines := []string{fmt.Sprintf("it waits since %s for %s", words.Span(a.Now-a.Since), a.Wants.text())}
	add := func(line string) {
		if line != "" {
			lines = append(lines, line)
		}
	}
	add(a.Held.text())
	add(a.Cap.text(&a.Wants))
	add(a.Supply.text())
	add(a.together())
	if a.Held != nil {
		return lines
	}
	add(a.Before.text())
	add(a.preemption())
	if a.HasPromise {
		add("by its reservation it starts in " + words.Span(a.Promised-a.Now) +
			" at the latest, unless others take longer than estimated")
	}
	if a.Round > 0 {
		add("decisions are made every " + words.Span(a.Round))
	}
	return lines
}

// text returns "8 GPUs of type H100 with 80 GiB each".
func (w *Wants) text() string {
	text := words.CountOf(w.GPUs, "GPU")
	switch {
	case w.Share > 0 && w.Share < cluster.WholeGPU:
		text = fmt.Sprintf("%.3g of a GPU", float64(w.Share)/cluster.WholeGPU)
	case w.Fewest < w.Most:
		text = fmt.Sprintf("%d to %d GPUs", w.Fewest, w.Most)
	}
	if w.GPUType != "" {
		text += " of type " + words.Clip(w.GPUType)
	}
	if w.GPUMemoryBytes > 0 {
		text += " with " + words.Bytes(uint64(w.GPUMemoryBytes))
		if w.GPUs > 1 {
			text += " each"
		}
	}
	return text
}

// text says why a job is not admitted; "" for nil.
func (h *Held) text() string {
	if h == nil {
		return ""
	}
	text := "it waits for admission"
	if h.Before > 0 {
		text += " behind " + words.CountOf(h.Before, "job")
	}
	if h.Limit != "" {
		text += ": " + h.Limit
	}
	return text
}

// text says which cap a job would exceed; "" for nil.
func (c *Cap) text(w *Wants) string {
	if c == nil {
		return ""
	}
	if need := float64(w.GPUs) * float64(max(w.Share, 1)) / cluster.WholeGPU; need > float64(c.Most) {
		return fmt.Sprintf("it never starts: user %s may hold %s at most", quoted(c.User), words.CountOf(c.Most, "GPU"))
	}
	return fmt.Sprintf("user %s holds %.4g of %s that it may hold", quoted(c.User), c.Used, words.CountOf(c.Most, "GPU"))
}

// quoted returns a user's name for a text.
func quoted(user string) string { return fmt.Sprintf("%q", words.Clip(user)) }

// text says where the GPUs are.
func (s *Supply) text() string {
	text := fmt.Sprintf("of %s that suit it: %d free", words.CountOf(s.Total, "GPU"), s.Free)
	if len(s.Nodes) > 0 {
		var on []string
		named := 0
		for _, n := range s.Nodes {
			name := n.Name
			if name == "" {
				name = fmt.Sprint("node ", n.Node)
			}
			on = append(on, fmt.Sprintf("%d on %s", n.Free, words.Clip(name)))
			named += n.Free
		}
		if named < s.Free {
			on = append(on, "others elsewhere")
		}
		text += " (" + strings.Join(on, ", ") + ")"
	}
	for _, each := range []struct {
		gpus int
		text string
	}{
		{s.Busy, "with jobs"},
		{s.Foreign, "used by programs that are no jobs"},
		{s.Cordoned, "on cordoned nodes"},
		{s.Draining, "on nodes that drain"},
		{s.Lost, "on nodes that are down"},
	} {
		if each.gpus > 0 {
			text += fmt.Sprintf(", %d %s", each.gpus, each.text)
		}
	}
	return text
}

// together says that the free GPUs would suffice in number.
func (a *Answer) together() string {
	if a.Held != nil || a.Cap != nil || a.Supply.Free < a.Wants.GPUs || a.Before.Jobs > 0 {
		return ""
	}
	if a.Supply.Largest < a.Wants.GPUs {
		return fmt.Sprintf("enough are free, but at most %d on one node: the placement policy may want them together",
			a.Supply.Largest)
	}
	return "enough are free, so the next decision can start it, unless it would delay a job with a reservation"
}

// text says which jobs are first.
func (b *Before) text() string {
	if b.Jobs == 0 {
		return "it is the first in the queue" + inBrackets(b.Words)
	}
	text := fmt.Sprintf("%s before it ask for %s: ", words.Count(b.Jobs, "job", "jobs"), words.CountOf(b.GPUs, "GPU"))
	if b.Jobs == 1 {
		text = fmt.Sprintf("1 job before it asks for %s: ", words.CountOf(b.GPUs, "GPU"))
	}
	var first []string
	for _, r := range b.First {
		line := fmt.Sprint("job ", r.Job)
		if r.Name != "" {
			line += fmt.Sprintf(" %q", words.Clip(r.Name))
		}
		if r.User != "" {
			line += " of " + words.Clip(r.User)
		}
		first = append(first, line+inBrackets(r.Words))
	}
	if b.Jobs > len(b.First) {
		first = append(first, "...")
	}
	text += strings.Join(first, ", ")
	if b.Words != "" {
		text += "; itself: " + b.Words
	}
	return text
}

// inBrackets returns a text in brackets, or nothing.
func inBrackets(text string) string {
	if text == "" {
		return ""
	}
	return " (" + text + ")"
}

// preemption says whether running jobs can be preempted for it.
func (a *Answer) preemption() string {
	switch {
	case !a.Preempts:
		return "running jobs are not preempted for it"
	case a.Preemptible == 0:
		return "no running job can be preempted for it now: they rank before it, or have just started"
	}
	return words.Count(a.Preemptible, "GPU is", "GPUs are") + " held by jobs that can be preempted for it"
}
