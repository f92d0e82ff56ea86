package progress

import "slices"

// Copies are consecutive layers that the same ranks have.
type Copies struct {
	First int   `json:"first"`
	Last  int   `json:"last"`
	Ranks []int `json:"ranks"`
}

// Copies returns which ranks have which layers.
func (s *Status) Copies() (all []Copies) {
	for layer := range s.Plan.Profile.Len() {
		ranks := s.holders(layer)
		if n := len(all); n > 0 && slices.Equal(all[n-1].Ranks, ranks) {
			all[n-1].Last = layer
			continue
		}
		all = append(all, Copies{layer, layer, ranks})
	}
	return all
}

// holders returns the ranks that have a layer, in the order of the pipelines.
func (s *Status) holders(layer int) (ranks []int) {
	for _, each := range s.Plan.Pipelines {
		for _, stage := range s.Plan.Template(each.Template).Stages {
			if stage.From <= layer && layer < stage.To {
				ranks = append(ranks, s.Nodes[each.Nodes[stage.Node]])
			}
		}
	}
	return ranks
}
