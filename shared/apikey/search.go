package apikey

import (
	"cmp"
	"maps"
	"slices"
	"strings"
	"unicode"
)

const (
	searchWords = 16                         // words of a name
	searchRunes = len("key-") + PrefixLength // characters of a term
)

// SearchText returns text in lower case without surrounding space.
func SearchText(text string) string { return strings.ToLower(strings.TrimSpace(text)) }

// SortName returns the text by which lists sort the key: its name, or its prefix if it has no name,
// in lower case.
func (k Key) SortName() string { return strings.ToLower(cmp.Or(k.Name, string(k.Prefix))) }

// Found reports whether one of the first 16 words of the name, or the ID with or without "key-",
// begins with text. text is a result of [SearchText] and may contain several words.
func (k Key) Found(text string) bool {
	idOnly := len(text) > len("key-") && strings.HasPrefix(string(k.ID()), text)
	return idOnly || strings.HasPrefix(string(k.Prefix), text) ||
		slices.ContainsFunc(words(k.Name), func(word string) bool { return strings.HasPrefix(word, text) })
}

// SearchTerms returns the key's sorted search terms: the texts of at most 12 characters that
// [Key.Found] accepts.
func (k Key) SearchTerms() []string {
	terms := map[string]bool{}
	for n := range k.Prefix {
		terms[string(k.Prefix[:n+1])], terms[string(k.ID()[:len("key-")+n+1])] = true, true
	}
	for _, word := range words(k.Name) {
		runes := []rune(word)
		for n := range min(len(runes), searchRunes) {
			terms[string(runes[:n+1])] = true
		}
	}
	return slices.Sorted(maps.Keys(terms))
}

// SearchTerm returns the term for a lookup of text. If the text is longer, the lookup may also find
// other keys.
func SearchTerm(text string) string {
	runes := []rune(text)
	return string(runes[:min(len(runes), searchRunes)])
}

// words returns the rest of a name from each word on. A word begins after a space, or at a letter
// or digit that follows another character.
func words(name string) (rests []string) {
	name = strings.ToLower(name)
	word, space := false, true
	for i, c := range name {
		in := unicode.IsLetter(c) || unicode.IsDigit(c)
		if !unicode.IsSpace(c) && (space || in && !word) && len(rests) < searchWords {
			rests = append(rests, name[i:])
		}
		word, space = in, unicode.IsSpace(c)
	}
	return rests
}
