package record

import "fmt"

// Controller is what a controller says of itself when it starts.
type Controller struct {
	Name string `json:"name"`
	// Address is where nodes and people reach it.
	Address string `json:"address"`
	Version string `json:"version"`
}

// controllerVersion is the version that Encode writes.
const controllerVersion = 1

// Encode returns the value for the store.
func (c *Controller) Encode() []byte { return encode("controller", controllerVersion, c) }

// DecodeController reads a value of the store.
func DecodeController(text []byte) (Controller, error) {
	var c Controller
	if err := decode(text, "controller", controllerVersion, &c); err != nil {
		return Controller{}, err
	}
	if c.Name == "" || c.Address == "" {
		return Controller{}, fmt.Errorf("controller: %w: it has no name or no address", ErrDamaged)
	}
	return c, nil
}
