use super::{SOURCES, WordSense, lexicon};
use crate::tokenizer::tokenize;

fn concepts(senses: &[WordSense]) -> Vec<&'static str> {
    senses.iter().map(|sense| lexicon().concepts()[usize::from(sense.concept)].name.as_str()).collect()
}

fn known(text: &str) -> Vec<(usize, usize, Vec<&'static str>)> {
    let hits = lexicon().hits(&tokenize(text));
    hits.into_iter().map(|hit| (hit.at, hit.length, concepts(hit.senses))).collect()
}

#[test]
fn it_is_read_whole() {
    assert!(lexicon().concepts().len() > 250, "{}", lexicon().concepts().len());
    assert!(lexicon().topics().len() >= 16, "{:?}", lexicon().topics());
    assert!(lexicon().entries.len() > 3000, "{}", lexicon().entries.len());
    let affinities = lexicon().entries.values().flatten().map(|sense| sense.affinity);
    assert!(affinities.into_iter().all(|affinity| affinity > 0.0 && affinity <= 1.0));
}

#[test]
fn words_and_phrases_are_found_in_any_form() {
    assert_eq!(known("blizzards"), [(0, 1, vec!["snow"])]);
    let phrase = known("an oil change");
    assert!(phrase.contains(&(1, 2, vec!["oil change"])), "{phrase:?}");
    assert_eq!(known("xyzzy"), []);
}

#[test]
fn other_languages_lead_to_the_same_concepts() {
    for (word, concept) in [("Wecker", "alarm"), ("lluvia", "rain"), ("Rezept", "recipe"), ("courriel", "email")] {
        let found = known(word);
        assert!(found.iter().any(|(_, _, concepts)| concepts.contains(&concept)), "{word}: {found:?}");
    }
}

#[test]
fn slips_are_corrected_and_strange_words_are_not() {
    for (misspelling, concept) in
        [("calender", None), ("birhtday", Some("birthday")), ("thermostatt", Some("thermostat"))]
    {
        let corrected = lexicon().senses_of_misspelling(misspelling).map(concepts);
        match concept {
            Some(concept) => assert_eq!(corrected, Some(vec![concept]), "{misspelling}"),
            None => assert_eq!(corrected, None, "{misspelling}"),
        }
    }
    for word in ["zxqvbl", "молоко!", "a", ""] {
        assert_eq!(lexicon().senses_of_misspelling(word), None, "{word}");
    }
}

/// Intent names of public data sets (CLINC150, BANKING77, MASSIVE, SNIPS). The lexicon consists of words and was not
/// made from such a set.
const PUBLIC_NAMES: &str = "\
    accept_reservations account_blocked activate_my_card age_limit alarm_query alarm_remove alarm_set \
    apple_pay_or_google_pay application_status are_you_a_bot atm_support audio_volume_down audio_volume_mute \
    audio_volume_other audio_volume_up automatic_top_up balance_not_updated_after_bank_transfer \
    beneficiary_not_allowed bill_balance bill_due book_flight book_hotel calendar_query calendar_remove \
    calendar_set calendar_update cancel_reservation cancel_transfer car_rental card_about_to_expire \
    card_acceptance card_arrival card_declined card_delivery_estimate card_linking card_not_working \
    card_payment_fee_charged card_swallowed carry_on cash_withdrawal_charge change_accent change_ai_name \
    change_language change_pin change_speed change_user_name change_volume compromised_card confirm_reservation \
    contactless_not_working cook_time cooking_query cooking_recipe country_support credit_limit \
    credit_limit_change credit_score current_location damaged_card datetime_convert datetime_query \
    declined_card_payment declined_cash_withdrawal declined_transfer direct_debit \
    direct_debit_payment_not_recognised direct_deposit disposable_card_limits do_you_have_pets \
    edit_personal_details email_addcontact email_query email_querycontact email_sendemail exchange_charge \
    exchange_rate exchange_via_app expiration_date extra_charge_on_statement failed_transfer \
    fiat_currency_support find_phone flight_status flip_coin food_last freeze_account fun_fact gas_type \
    general_greet general_joke general_quirky get_disposable_virtual_card get_physical_card getting_spare_card \
    getting_virtual_card how_busy how_old_are_you improve_credit_score ingredient_substitution ingredients_list \
    insurance_change interest_rate international_fees international_visa iot_cleaning iot_coffee \
    iot_hue_lightchange iot_hue_lightdim iot_hue_lightoff iot_hue_lighton iot_hue_lightup iot_wemo_off \
    iot_wemo_on jump_start last_maintenance lists_createoradd lists_query lists_remove lost_luggage \
    lost_or_stolen_card lost_or_stolen_phone make_call meal_suggestion meaning_of_life measurement_conversion \
    meeting_schedule min_payment music_dislikeness music_likeness music_query music_settings new_card news_query \
    next_holiday next_song nutrition_info oil_change_how oil_change_when order_checks order_physical_card \
    order_status passcode_forgotten pay_bill pending_card_payment pending_cash_withdrawal pending_top_up \
    pending_transfer pin_blocked pin_change play_audiobook play_game play_music play_podcasts play_radio \
    plug_type pto_balance pto_request pto_request_status pto_used qa_currency qa_definition qa_factoid qa_maths \
    qa_stock receiving_money recommendation_events recommendation_locations recommendation_movies redeem_rewards \
    reminder_update replacement_card_duration report_fraud report_lost_card request_refund reset_settings \
    restaurant_reservation restaurant_reviews restaurant_suggestion reverted_card_payment rewards_balance \
    roll_dice rollover_401k schedule_maintenance schedule_meeting share_location shopping_list \
    shopping_list_update smart_home social_post social_query spending_history supported_cards_and_currencies \
    sync_device takeaway_order takeaway_query tell_joke terminate_account thank_you tire_change tire_pressure \
    todo_list todo_list_update top_up top_up_by_bank_transfer_charge top_up_by_card_charge \
    top_up_by_cash_or_cheque top_up_failed top_up_limits top_up_reverted topping_up_by_card \
    transaction_charged_twice transfer_fee_charged transfer_into_account transfer_not_received_by_recipient \
    transfer_timing transport_query transport_taxi transport_ticket transport_traffic travel_alert \
    travel_notification travel_suggestion unable_to_verify_identity update_playlist user_name verify_my_identity \
    verify_source_of_funds verify_top_up virtual_card virtual_card_not_working visa_or_mastercard weather_query \
    what_are_your_hobbies what_can_i_ask_you what_is_your_name what_song where_are_you_from whisper_mode \
    who_do_you_work_for who_made_you why_verify_identity wrong_amount_of_cash_received \
    wrong_exchange_rate_for_cash_withdrawal";

#[test]
fn no_entry_is_a_name_of_a_public_set() {
    let known: Vec<&str> = PUBLIC_NAMES.split_whitespace().collect();
    assert!(known.len() > 150);
    let lines = SOURCES.iter().flat_map(|source| source.lines()).filter(|line| !line.starts_with(['#', '=']));
    let entries = lines.flat_map(str::split_whitespace).map(|entry| entry.trim_end_matches('?'));
    let taken: Vec<&str> = entries.filter(|entry| known.contains(entry)).collect();
    assert_eq!(taken, Vec::<&str>::new());
}
