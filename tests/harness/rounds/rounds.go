// Package rounds says how thorough a test is. By default tests make a sample of their rounds, so
// that those of a package end within seconds after an edit, and all of them within half an hour.
// With PHOS_ROUNDS_ALL=1 they make all their rounds.
package rounds

import (
	"math/rand/v2"
	"os"
)

// Variable asks for all rounds if it is not empty.
const Variable = "PHOS_ROUNDS_ALL"

// All reports whether tests make all their rounds.
func All() bool { return os.Getenv(Variable) != "" }

// Of returns how many rounds a test makes: all of them, or only a sample.
func Of(sample, all int) int {
	if All() {
		return all
	}
	return sample
}

// First returns the first round of a sample of every step-th one: another one in each run, so that
// all have their turn. It is 0 if a test makes all its rounds.
func First(step int) int {
	if All() {
		return 0
	}
	return rand.IntN(step)
}
