//! Which colour a series wears.
//!
//! Colours themselves live in the style sheet (`--s0` … `--s7`, one set per theme). A name keeps
//! its slot wherever it appears, so that two people who look at the same region see the same hue.

/// Slots in the palette.
pub const SLOTS: usize = 8;

/// Slots for a set of names: the hash of the name decides, and of two names that collide the later
/// in the alphabet moves on. Past [`SLOTS`] names slots repeat (the caller adds dashes).
pub fn slots(names: &[String]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..names.len()).collect();
    order.sort_by(|a, b| names[*a].cmp(&names[*b]));
    let mut taken = [false; SLOTS];
    let mut found = vec![0; names.len()];
    for index in order {
        let wish = hash(&names[index]) % SLOTS;
        let free = (0..SLOTS).map(|step| (wish + step) % SLOTS).find(|slot| !taken[*slot]);
        let slot = free.unwrap_or(wish);
        taken[slot] = true;
        found[index] = slot;
    }
    found
}

/// FNV-1a, folded so that all bits reach the slot. It starts from a value under which the regions most often seen
/// together get hues that are easy to tell apart.
fn hash(name: &str) -> usize {
    let full = name.bytes().fold(0x811c_9df5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    (full ^ (full >> 16)) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    fn names(list: &[&str]) -> Vec<String> {
        list.iter().map(|name| (*name).to_owned()).collect()
    }

    #[test]
    fn a_name_keeps_its_slot_whatever_the_order() {
        let one = slots(&names(&["us-east-1", "us-west-2", "eu-west-1"]));
        let other = slots(&names(&["eu-west-1", "us-east-1", "us-west-2"]));
        assert_eq!((one[0], one[1], one[2]), (other[1], other[2], other[0]));
    }

    #[test]
    fn eight_names_wear_eight_colours() {
        let many: Vec<String> = (0..SLOTS).map(|index| format!("region-{index}")).collect();
        let mut found = slots(&many);
        found.sort_unstable();
        assert_eq!(found, (0..SLOTS).collect::<Vec<_>>());
        assert_eq!(slots(&names(&["a"; 20])).len(), 20);
    }
}
