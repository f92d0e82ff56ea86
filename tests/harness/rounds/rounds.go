// Package rounds says how thorough a test is. By default the tests of a package end within seconds,
// so that they can run after every edit. With PHOS_ROUNDS_ALL=1, which the test verb of build.sh
// sets, they make all their rounds.
package rounds

import "os"

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
