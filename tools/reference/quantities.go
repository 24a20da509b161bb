package main

import (
	"encoding/json"
	"fmt"
	"math/rand"
	"strings"

	"k8s.io/apimachinery/pkg/api/resource"
)

// quantityCase is what became of one JSON value that was decoded as a quantity.
type quantityCase struct {
	In     json.RawMessage `json:"in"`
	Value  int64           `json:"value"`
	Milli  int64           `json:"milli"`
	String string          `json:"string,omitempty"`
	Exact  string          `json:"exact,omitempty"`
	Error  string          `json:"error,omitempty"`
}

var suffixes = []string{
	"", "n", "u", "m", "k", "M", "G", "T", "P", "E", "Ki", "Mi", "Gi", "Ti", "Pi", "Ei",
	"e3", "E-3", "e+2", "e-9",
}

var numbers = []string{"0", "1", "-1", "8", "100", "1000", "1024", "1536", "0.5", "1.5", "-2.25", "1.234"}

var oddTexts = []string{
	// signs, points and zeros
	"", " ", ".", "-", "+", "-.", "+.5", "-.5", ".5", "5.", "5.Ki", "00", "007", "-0", "+0", "+7", "+7Ki", "+4Ki", "004Ki", "+8Ki", "-12Mi", "+12",
	"0.0", "0.000", "00.5", "-00.50", "01Ki", "1.000", "1.0000", "0.0001", "10.00", " 1", "1 ", " 2Gi ", "1 Gi",
	// suffixes alone, doubled, of the wrong case or unknown
	"m", "Ki", "Pi", "Ei", "e", "E", "e5", "E5", "e-20", ".e-20", "0e-20", "1i", "1ki", "1mi", "1K", "1g", "1KiB", "1MB",
	"1kk", "1mm", "1mK", "1ee5", "1e5e5", "1e5.5", "1e", "1e+", "1e-", "1E+", "1eK", "1Ei5", "1+5", "1-5", "--1", "+-1", "1.2.3",
	"abc", "0x10", "1_000", "1,000", "inf", "nan", "Infinity", "NaN", "1\t", "1\n", "\u0661", "１", "1µ",
	// finer than a billionth
	"1e-9", "1e-10", "1.1e-9", "0.1n", "0.5n", "1.5n", "0.0000000001", "1.0000000001", "-0.1n", "-1e-30", "1e-300",
	"999999999.9999999999", "0.1Ki", "0.0001Ki", "0.00000000001Ki", "1.0000000001Gi", "0.5Ki", "1.5Ki", "-1.5Ki", "1023.5Ki",
	// int64 and beyond
	"999999999999999999", "1000000000000000000", "9223372036854775806", "9223372036854775807", "9223372036854775808",
	"-9223372036854775807", "-9223372036854775808", "-9223372036854775809", "18446744073709551615", "18446744073709551616",
	"99999999999999999999", "123456789012345678901234567890", "-123456789012345678901234567890", "9223372036854775.807",
	"9223372036854775.808", "9.223372036854775807E", "0.9223372036854775807", "12345678901234567.8", "9E", "10E", "100E", "1000E",
	"-1000E", "9223372036854775807m", "9223372036854775808n", "9999999999999999999n", "1000000000000000000m", "999999999999999999m",
	"92233720368547758", "922337203685477580", "92233720368547759m", "9300P", "9300000T", "9300000000G", "93E", "12345E",
	"7Ei", "8Ei", "9Ei", "16Ei", "-8Ei", "-16Ei", "8191Pi", "8192Pi", "8388607Ti", "8388608Ti", "9007199254740993Ki", "1e18", "1e19",
	"1e20", "1e21", "12e21", "-1e21", "1e30", "1e63", "1e64", "1e80", "1e300", "-1e300", "1234567890123456789e3",
	"1234567890123456789e10", "1234567890123456789e64", "1234567890123456789e100", "-1234567890123456789e10", "-1234567890123456789e100",
	"1e4294967296", "1e4294967299", "-5e4294967299", "1e9223372036854775807", "1e9223372036854775808",
	"1e99999999999999999999", "1e007", "1e-007", "2e0", "2e+0", "2e-0",
	// the edges of what upstream trusts to an int64 while it reads a binary suffix
	"99999999999Ki", "100000000000Ki", "999999999999Ki", "99999999Mi", "100000000Mi", "99999Gi", "100000Gi", "99Ti", "100Ti", "1Pi", "9Pi",
	// rounding of negatives differs between the two representations
	"-1.5m", "-0.0015", "-1.0000000005", "-1000000000000000000.5", "-2.5Gi", "-0.5Mi", "-1234567890123456789.5", "1234567890123456789.5",
	// as seen in clusters
	"250m", "4", "16", "110", "16393244Ki", "32Gi", "1.5Gi", "7910Mi", "47093746742", "101430960Ki", "0.1", "2.5", "500Mi", "1e6", "128974848",
	"129e6", "129M", "128974848000m", "123Mi", "3920m", "12k", "1500k", "2048Ki", "1048576Ki", "3145728Ki", "12000m", "1024Mi", "1025Mi", "512",
}

var bareNumbers = []string{
	"0", "1", "-1", "2.5", "0.1", "1.234", "1000", "1024", "1e3", "1E3", "1e-3", "1.5e3", "100.0", "0.0005", "9223372036854775807",
	"9223372036854775808", "1e+21", "1e-07", "true",
}

func quantityCases() []any {
	var cases []any
	addText := func(text string) {
		raw, err := json.Marshal(text)
		if err != nil {
			fail(err.Error())
		}
		cases = append(cases, readQuantity(raw))
	}
	for _, number := range numbers {
		for _, suffix := range suffixes {
			addText(number + suffix)
		}
	}
	for _, text := range oddTexts {
		addText(text)
	}
	for _, raw := range bareNumbers {
		cases = append(cases, readQuantity(json.RawMessage(raw)))
	}
	random := rand.New(rand.NewSource(1))
	for range 250 {
		addText(randomQuantity(random))
	}
	return cases
}

func randomQuantity(random *rand.Rand) string {
	var text strings.Builder
	text.WriteString([]string{"", "", "", "-", "+"}[random.Intn(5)])
	writeDigits(&text, random, 1+random.Intn(21))
	if random.Intn(3) == 0 {
		text.WriteString(".")
		writeDigits(&text, random, random.Intn(14))
	}
	if random.Intn(4) == 0 {
		fmt.Fprintf(&text, "e%d", random.Intn(60)-30)
	} else {
		text.WriteString(suffixes[random.Intn(16)])
	}
	return text.String()
}

// writeDigits favours trailing zeros, which the canonical form is about.
func writeDigits(text *strings.Builder, random *rand.Rand, count int) {
	zeros := 0
	if random.Intn(3) == 0 {
		zeros = random.Intn(count + 1)
	}
	for i := range count {
		if i >= count-zeros {
			text.WriteByte('0')
		} else {
			text.WriteByte(byte('0' + random.Intn(10)))
		}
	}
}

func readQuantity(raw json.RawMessage) quantityCase {
	result := quantityCase{In: raw}
	var quantity resource.Quantity
	if err := json.Unmarshal(raw, &quantity); err != nil {
		result.Error = err.Error()
		return result
	}
	result.Value = quantity.Value()
	result.Milli = quantity.MilliValue()
	result.String = quantity.String()
	// The last question: it changes how the quantity is represented.
	dec := quantity.AsDec()
	if scale := dec.Scale(); scale > -400 && scale < 400 {
		result.Exact = dec.String()
	}
	return result
}
