package place

import (
	"strings"

	"github.com/phos-gpu/phos/scheduler"
	"github.com/phos-gpu/phos/scheduler/cluster"
)

// Skew spreads only those jobs that tolerate it (Gu et al., Tiresias: A GPU Cluster Manager for
// Distributed Deep Learning, NSDI 2019, §3.3). A model with one tensor that holds much of all
// parameters sends its gradients in a few large messages and is slow across nodes; a model with
// many small tensors is not. So a job of a skewed model runs on the fewest nodes that could ever
// hold its GPUs, or waits for them. Any other job fills leftovers: a node with exactly the
// requested number of free GPUs, else the nodes with the fewest.
type Skew struct {
	// PackLimit is the skew above which a model counts as skewed; 0 means DefaultPackLimit.
	PackLimit float64
}

// DefaultPackLimit is between the models that the paper found sensitive (AlexNet and VGG, above a
// half) and those that it did not (ResNet, Inception and GoogLeNet, below a fifth).
const DefaultPackLimit = 0.35

// UnknownSkew is the assumed skew of unknown models: most consist of many similar layers.
const UnknownSkew = 0.15

// skews are the parameters of the largest tensor divided by all parameters of a model, by its
// published architecture. A name matches all names that begin with it, as "resnet" matches
// "resnet50"; the longest match counts.
var skews = map[string]float64{
	"alexnet":     0.618, // 37.7 of 61.1 million: the first fully connected layer
	"vgg":         0.743, // 102.8 of 138.4 million in VGG-16
	"vgg11":       0.774, // of 132.9
	"vgg19":       0.715, // of 143.7
	"resnet":      0.092, // 2.36 of 25.6 million in ResNet-50
	"resnet18":    0.202, // of 11.7
	"resnet101":   0.053, // of 44.5
	"resnet152":   0.039, // of 60.2
	"inception":   0.086, // 2.05 of 23.8 million in v3
	"googlenet":   0.155, // 1.02 of 6.6
	"mobilenet":   0.365, // 1.28 of 3.5 million in v2: a small model, all in its classifier
	"shufflenet":  0.449, // 1.02 of 2.28
	"densenet":    0.128, // 1.02 of 7.98 million in DenseNet-121
	"lstm":        0.490, // 13.3 of 27.1 million: a word embedding of WikiText-2 at 400
	"gnmt":        0.206, // 33.0 of 160 million: the embedding of 32,317 words at 1,024
	"transformer": 0.290, // 18.9 of 65 million: the shared embedding
	"bert":        0.213, // 23.4 of 110 million
	"gpt2":        0.310, // 38.6 of 124 million
	"deepspeech":  0.073, // a row of like recurrent layers
}

// normalizer makes "ResNet-50" and "resnet_50" equal.
var normalizer = strings.NewReplacer("-", "", "_", "", " ", "")

// SkewOf returns the share of a model's parameters in its largest tensor, or UnknownSkew.
func SkewOf(model string) float64 {
	model = normalizer.Replace(strings.ToLower(model))
	skew, longest := UnknownSkew, 0
	for name, s := range skews {
		if len(name) > longest && strings.HasPrefix(model, name) {
			skew, longest = s, len(name)
		}
	}
	return skew
}

// Place returns n GPUs, or a share of one.
func (s Skew) Place(v scheduler.View, j *scheduler.Job, n int) (cluster.Placement, bool) {
	f := v.Free()
	if j.Share() < cluster.WholeGPU {
		return tightestShare(f, j)
	}
	if f.WholeFor(j) < n {
		return nil, false
	}
	limit := s.PackLimit
	if limit == 0 {
		limit = DefaultPackLimit
	}
	if n == 1 || SkewOf(j.Model()) <= limit {
		return leftovers(f, j, n), true
	}
	parts := fewestNodes(nil, f, j, n, nil)
	if len(parts) > f.FewestNodes(j, n) {
		return nil, false
	}
	return pickAll(f, parts), true
}

// leftovers takes GPUs of nodes with few free ones. There must be n.
func leftovers(f *scheduler.Free, j *scheduler.Job, n int) cluster.Placement {
	if node, ok := nextExact(f, j, 0, n, nil); ok {
		return f.Pick(nil, node, n)
	}
	var parts []nodePart
	for level := 1; n > 0; level++ {
		node, ok := nextExact(f, j, 0, level, nil)
		for ; ok && n > 0; node, ok = nextExact(f, j, node+1, level, nil) {
			gpus := min(n, level)
			parts, n = append(parts, nodePart{node, gpus}), n-gpus
		}
	}
	return pickAll(f, sortParts(parts))
}
