package fatbin

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/phos-gpu/phos/daemon/gpu"
	"github.com/phos-gpu/phos/hijack/abi"
)

// Images is the content of a container, in its order.
type Images struct {
	// Texts are alternatives: the same program for several architectures.
	Texts []Text
	// Linked are PTX texts that together make up one program; only phos's own container has them.
	Linked []string
	// Cubins are alternatives in machine code.
	Cubins []Cubin
	// Parts are what the above was linked from, each with its own alternatives. Only separately
	// compiled programs have them; their linked code is often machine code only.
	Parts []*Images
	// Whole is the fat binary as it came, for drivers, which choose themselves; nil for other forms.
	Whole []byte
}

// Text is one PTX text.
type Text struct {
	// SM is the lowest architecture that the text supports, 90 for sm_90; 0 if the text does not
	// specify it.
	SM int
	// Specific is set for texts that support exactly that architecture (sm_90a), Family for texts that
	// support later ones of its major version (sm_100f).
	Specific, Family bool
	PTX              string
}

// Cubin is one machine code file.
type Cubin struct {
	SM int
	// Specific is set for code that runs on exactly that architecture (sm_90a).
	Specific bool
	elf      []byte
	packed   *entry // nil if elf is set
}

// Code returns the ELF file. It unpacks it each time: a fat binary has code for a dozen
// architectures, of which one is used.
func (c *Cubin) Code() ([]byte, error) {
	if c.packed != nil {
		return c.packed.unpack()
	}
	return c.elf, nil
}

// Best selects what a device of compute capability cc (90 for 9.0) should load. That is the machine
// code that a driver would choose, and the PTX of the highest architecture that the device
// supports; linked texts stay as they are. If the device supports the machine code, but only PTX
// for later architectures exists, that PTX is included: the program runs on such a device, so it
// must also run on one that executes only PTX. If nothing fits, Best returns any machine code, for
// the error message. The error's code is abi.NoBinaryForGPU.
func (i *Images) Best(cc int) (gpu.Image, error) {
	if len(i.Linked) > 0 {
		return gpu.Image{PTX: i.Linked}, nil
	}
	image := gpu.Image{Whole: i.Whole, Holds: i.Describe()}
	cubin := i.BestCubin(cc)
	fits := cubin != nil && cubin.fits(cc)
	if text := i.bestText(cc); text != nil {
		image.PTX = []string{text.PTX}
	} else if image.PTX = i.partTexts(cc); len(image.PTX) == 0 && fits {
		if text := i.laterText(cc); text != nil {
			image.PTX = []string{text.PTX}
		}
	}
	if fits || cubin != nil && len(image.PTX) == 0 {
		code, err := cubin.Code()
		if err != nil {
			return gpu.Image{}, err
		}
		image.Cubin = code
	}
	if len(image.PTX) > 0 || len(image.Cubin) > 0 {
		return image, nil
	}
	return gpu.Image{}, &gpu.Error{
		Op: "choose code", Code: abi.NoBinaryForGPU,
		Detail: fmt.Sprintf("nothing for compute capability %d.%d among: %s", cc/10, cc%10, i.Describe()),
	}
}

// partTexts returns one text of every part that has code; none if some part has no text for the
// device.
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

// bestText returns the text of the highest architecture that a device of capability cc supports.
func (i *Images) bestText(cc int) *Text {
	var best *Text
	for n := range i.Texts {
		text := &i.Texts[n]
		if !text.fits(cc) {
			continue
		}
		// Prefer the portable one of equals: a text for sm_90a may use instructions of that ISA only.
		if best == nil || text.SM > best.SM || text.SM == best.SM && !best.portable() && text.portable() {
			best = text
		}
	}
	return best
}

// laterText returns the text for the first architecture after cc that later devices also support.
func (i *Images) laterText(cc int) *Text {
	var first *Text
	for n := range i.Texts {
		text := &i.Texts[n]
		if text.SM > cc && text.portable() && (first == nil || text.SM < first.SM) {
			first = text
		}
	}
	return first
}

// fits reports whether a device of capability cc runs the code: same major version, minor version
// not above; arch-specific code on exactly one.
func (c *Cubin) fits(cc int) bool {
	return c.SM/10 == cc/10 && (c.SM == cc || c.SM < cc && !c.Specific)
}

// fits reports whether the text can be compiled for a device of capability cc.
func (t *Text) fits(cc int) bool {
	return t.SM == cc || t.SM < cc && !t.Specific && (!t.Family || t.SM/10 == cc/10)
}

// portable reports whether the text runs on all later architectures.
func (t *Text) portable() bool { return !t.Specific && !t.Family }

// BestCubin selects machine code for a device of capability cc: same major version, highest minor
// version not above it. If none fits, it returns any machine code, for the error message; nil if
// there is none.
func (i *Images) BestCubin(cc int) *Cubin {
	var best *Cubin
	for n := range i.Cubins {
		cubin := &i.Cubins[n]
		switch {
		case best == nil:
			best = cubin
		case cubin.fits(cc) && (!best.fits(cc) || cubin.SM > best.SM || cubin.SM == best.SM && cubin.Specific):
			best = cubin
		}
	}
	return best
}

// architecture is an architecture name such as sm_90a.
type architecture struct {
	sm     int
	suffix string
}

// suffix returns the letter of architecture-specific or family-specific texts.
func (t *Text) suffix() string {
	switch {
	case t.Specific:
		return "a"
	case t.Family:
		return "f"
	}
	return ""
}

// suffix returns the letter of architecture-specific code.
func (c *Cubin) suffix() string {
	if c.Specific {
		return "a"
	}
	return ""
}

// Describe lists the content for messages: "PTX sm_75, machine code sm_80 sm_90".
func (i *Images) Describe() string {
	var texts, cubins []architecture
	for _, text := range i.Texts {
		texts = append(texts, architecture{text.SM, text.suffix()})
	}
	for _, cubin := range i.Cubins {
		cubins = append(cubins, architecture{cubin.SM, cubin.suffix()})
	}
	var parts []string
	for _, group := range []struct {
		name string
		sms  []architecture
	}{{"PTX", texts}, {"machine code", cubins}} {
		if len(group.sms) == 0 {
			continue
		}
		slices.SortFunc(
			group.sms,
			func(a, b architecture) int { return cmp.Or(a.sm-b.sm, strings.Compare(a.suffix, b.suffix)) },
		)
		part := group.name
		for _, each := range slices.Compact(group.sms) {
			part += fmt.Sprintf(" sm_%d%s", each.sm, each.suffix)
		}
		parts = append(parts, part)
	}
	if len(parts) == 0 {
		return "no code"
	}
	return strings.Join(parts, ", ")
}
