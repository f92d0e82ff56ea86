package fatbin

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Prefixes of targets: PTX for a virtual architecture and later ones, machine code for a real one.
const (
	targetPTX    = "compute_"
	targetBinary = "sm_"
)

// Targets lists the targets of the code, each once, in nvcc's notation: "compute_75" for PTX,
// "sm_90a" for machine code. Runs decides by it, without the code, whether a device can load the
// code.
func (i *Images) Targets() []string {
	if len(i.Linked) > 0 {
		linked := Images{}
		for _, ptx := range i.Linked {
			linked.Texts = append(linked.Texts, targetOf(ptx))
		}
		return []string{linked.latestText()}
	}
	var targets []string
	for _, text := range i.Texts {
		targets = append(targets, text.target())
	}
	for _, cubin := range i.Cubins {
		targets = append(targets, targetBinary+strconv.Itoa(cubin.SM)+cubin.suffix())
	}
	if whole := i.partsTarget(); whole != "" {
		targets = append(targets, whole)
	}
	slices.Sort(targets)
	return slices.Compact(targets)
}

// target returns the text's target in nvcc's notation.
func (t *Text) target() string {
	return targetPTX + strconv.Itoa(t.SM) + t.suffix()
}

// latestText returns the target of the text with the highest architecture.
func (i *Images) latestText() string {
	latest := slices.MaxFunc(i.Texts, func(a, b Text) int { return cmp.Or(a.SM-b.SM, len(a.suffix())-len(b.suffix())) })
	return latest.target()
}

// partsTarget returns the PTX target that all parts support: the highest of each part's lowest
// target. It is empty if a part has no PTX.
func (i *Images) partsTarget() string {
	var needed Images
	for _, part := range i.Parts {
		if len(part.Texts)+len(part.Cubins) == 0 {
			continue
		}
		if len(part.Texts) == 0 {
			return ""
		}
		needed.Texts = append(needed.Texts, slices.MinFunc(part.Texts, func(a, b Text) int { return a.SM - b.SM }))
	}
	if len(needed.Texts) == 0 {
		return ""
	}
	return needed.latestText()
}

// Runs reports whether code with these targets runs on a device of capability cc (90 for 9.0).
// ptxOnly is set if the device cannot run machine code. Such a device may use PTX for later
// architectures if there is machine code for it, as in Best.
func Runs(targets []string, cc int, ptxOnly bool) bool {
	var images Images
	for _, target := range targets {
		images.addTarget(target)
	}
	if images.bestText(cc) != nil {
		return true
	}
	cubin := images.BestCubin(cc)
	return cubin != nil && cubin.fits(cc) && (!ptxOnly || images.laterText(cc) != nil)
}

// addTarget adds a target to Images. It ignores unknown targets, which no device runs.
func (i *Images) addTarget(target string) {
	if number, is := strings.CutPrefix(target, targetPTX); is {
		number, specific := strings.CutSuffix(number, "a")
		number, family := strings.CutSuffix(number, "f")
		if sm, err := strconv.Atoi(number); err == nil {
			i.Texts = append(i.Texts, Text{SM: sm, Specific: specific, Family: family})
		}
		return
	}
	if number, is := strings.CutPrefix(target, targetBinary); is {
		number, specific := strings.CutSuffix(number, "a")
		if sm, err := strconv.Atoi(number); err == nil {
			i.Cubins = append(i.Cubins, Cubin{SM: sm, Specific: specific})
		}
	}
}
