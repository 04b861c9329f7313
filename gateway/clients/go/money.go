package ledger

import (
	"fmt"
	"math/big"
	"regexp"
	"strings"
)

var amountPattern = regexp.MustCompile(`^-?[0-9]+(\.[0-9]{1,2})?$`)

// ToMinor reads "12.5" as 1250 minor units.
func ToMinor(amount string) (*big.Int, error) {
	if !amountPattern.MatchString(amount) {
		return nil, fmt.Errorf("not an amount: %q", amount)
	}
	whole, fraction, _ := strings.Cut(amount, ".")
	minor, _ := new(big.Int).SetString(whole+(fraction + "00")[:2], 10)
	return minor, nil
}

// FromMinor writes 1250 minor units as "12.50".
func FromMinor(minor *big.Int) string {
	digits := fmt.Sprintf("%03s", new(big.Int).Abs(minor).String())
	sign := ""
	if minor.Sign() < 0 {
		sign = "-"
	}
	return sign + digits[:len(digits)-2] + "." + digits[len(digits)-2:]
}

// Sum adds amounts of one currency.
func Sum(amounts ...string) (string, error) {
	total := new(big.Int)
	for _, amount := range amounts {
		minor, err := ToMinor(amount)
		if err != nil {
			return "", err
		}
		total.Add(total, minor)
	}
	return FromMinor(total), nil
}
