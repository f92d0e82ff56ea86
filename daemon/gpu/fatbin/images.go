package fatbin

import (
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Images is what a container holds, in its order.
type Images struct {
	// Texts are alternatives: the same program for several architectures.
	Texts []Text
	// Linked are PTX texts that make up one program together; only phos's own container has them.
	Linked []string
	// Cubins are alternatives in machine code.
	Cubins []Cubin
	// Parts are what the above was linked from, each with its own alternatives; only separately compiled programs have
	// them, whose linked code is often machine code alone.
	Parts []*Images
}

// Text is one PTX text.
type Text struct {
	// SM is the architecture that the text needs at least, times ten: 90 for sm_90. 0 where the text does not say.
	SM int
	// Specific marks texts for exactly that architecture (sm_90a).
	Specific bool
	PTX      string
}

// Cubin is one machine code file.
type Cubin struct {
	SM  int
	ELF []byte
}

// Best picks what a device of compute capability cc (90 for 9.0) should load: PTX of the highest architecture that the
// device has, linked texts as they are, machine code where there is no such PTX. Where the device has the machine code's
// architecture, PTX for later ones comes with it: a program that brings both runs on such a device, so it must run
// on one that executes PTX only. The error's code is abi.NoBinaryForGPU.
func (i *Images) Best(cc int) (gpu.Image, error) {
	if len(i.Linked) > 0 {
		return gpu.Image{PTX: i.Linked}, nil
	}
	if text := i.bestText(cc); text != nil {
		return gpu.Image{PTX: []string{text.PTX}}, nil
	}
	if texts := i.partTexts(cc); len(texts) > 0 {
		return gpu.Image{PTX: texts}, nil
	}
	if cubin := i.BestCubin(cc); cubin != nil {
		image := gpu.Image{Cubin: cubin.ELF, Holds: i.Describe()}
		if text := i.laterText(cc); text != nil && cubin.fits(cc) {
			image.PTX = []string{text.PTX}
		}
		return image, nil
	}
	return gpu.Image{}, &gpu.Error{
		Op: "choose code", Code: abi.NoBinaryForGPU,
		Detail: fmt.Sprintf("nothing for compute capability %d.%d among: %s", cc/10, cc%10, i.Describe()),
	}
}

// partTexts is one text of every part that has code; none where a part has none that the device could run.
func (i *Images) partTexts(cc int) []string {
	var texts []string
	for _, part := range i.Parts {
		text := part.bestText(cc)
		switch {
		case text != nil:
			texts = append(texts, text.PTX)
		case len(part.Texts)+len(part.Cubins) > 0:
			return nil
		}
	}
	return texts
}

func (i *Images) bestText(cc int) *Text {
	var best *Text
	for n := range i.Texts {
		text := &i.Texts[n]
		if text.SM > cc || text.Specific && text.SM != cc {
			continue
		}
		// Of equals the portable one wins: a text for sm_90a uses what is in no other ISA.
		if best == nil || text.SM > best.SM || text.SM == best.SM && best.Specific && !text.Specific {
			best = text
		}
	}
	return best
}

// laterText is the text for the first architecture after cc that any later device has, too.
func (i *Images) laterText(cc int) *Text {
	var first *Text
	for n := range i.Texts {
		text := &i.Texts[n]
		if text.SM > cc && !text.Specific && (first == nil || text.SM < first.SM) {
			first = text
		}
	}
	return first
}

// fits says whether a device of capability cc runs it: same major version, minor not above.
func (c *Cubin) fits(cc int) bool { return c.SM/10 == cc/10 && c.SM <= cc }

// BestCubin picks machine code that runs on a device of capability cc: same major version, highest minor not above it.
// Where none fits it returns any, so that the refusal can say what the program brought; nil where there is none at all.
func (i *Images) BestCubin(cc int) *Cubin {
	var best *Cubin
	for n := range i.Cubins {
		cubin := &i.Cubins[n]
		switch {
		case best == nil:
			best = cubin
		case cubin.fits(cc) && (!best.fits(cc) || cubin.SM > best.SM):
			best = cubin
		}
	}
	return best
}

// Describe lists what there is, for messages: "PTX sm_75, machine code sm_80 sm_90".
func (i *Images) Describe() string {
	var texts, cubins []int
	for _, text := range i.Texts {
		texts = append(texts, text.SM)
	}
	for _, cubin := range i.Cubins {
		cubins = append(cubins, cubin.SM)
	}
	var parts []string
	for _, group := range []struct {
		name string
		sms  []int
	}{{"PTX", texts}, {"machine code", cubins}} {
		if len(group.sms) == 0 {
			continue
		}
		slices.Sort(group.sms)
		part := group.name
		for _, sm := range slices.Compact(group.sms) {
			part += fmt.Sprintf(" sm_%d", sm)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "no code"
	}
	return strings.Join(parts, ", ")
}
