package choose

import (
	"fmt"
	"strings"

	"github.com/phos-gpu/phos/scheduler/admit"
	"github.com/phos-gpu/phos/scheduler/order"
)

// Blox's nine candidates: what Grid makes of these.
const (
	DefaultOrders     = "las,fifo,srtf"
	DefaultAdmissions = "all,load:1.2,load:1.4"
)

// Grid is every order with every admission, both lists of names with commas between them. A candidate's name is "order+admission".
func Grid(orders, admissions string, p order.Parameters) ([]Candidate, error) {
	var out []Candidate
	for name := range strings.SplitSeq(orders, ",") {
		o, err := order.ByName(name, p)
		if err != nil {
			return nil, fmt.Errorf("%w: %w", ErrCandidate, err)
		}
		for admission := range strings.SplitSeq(admissions, ",") {
			a, err := admit.ByName(admission)
			if err != nil {
				return nil, fmt.Errorf("%w: %w", ErrCandidate, err)
			}
			out = append(out, Candidate{Name: name + "+" + admission, Order: o, Admit: a})
		}
	}
	return out, nil
}
