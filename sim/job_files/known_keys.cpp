#include "sim/job_files/known_keys.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "sim/base/error.h"
#include "sim/base/text.h"
#include "sim/config/reader.h"

namespace zenflow::sim {
namespace {

namespace fs = std::filesystem;

// Names with one blank between, of the releases in training_file.h and, where those dropped some,
// of older ones.

/// transformers 5.24 and 4.57.
constexpr std::string_view kTrainer =
    "accelerator_config activation_checkpointing activation_checkpointing_kwargs adafactor "
    "adam_beta1 adam_beta2 adam_epsilon auto_find_batch_size average_tokens_across_devices "
    "batch_eval_metrics bf16 bf16_full_eval data_seed dataloader_drop_last dataloader_in_order "
    "dataloader_multiprocessing_context dataloader_num_workers dataloader_persistent_workers "
    "dataloader_pin_memory dataloader_prefetch_factor ddp_backend ddp_broadcast_buffers "
    "ddp_bucket_cap_mb ddp_find_unused_parameters ddp_static_graph ddp_timeout debug deepspeed "
    "disable_tqdm do_eval do_predict do_train enable_jit_checkpoint eval_accumulation_steps "
    "eval_delay eval_do_concat_batches eval_on_start eval_steps eval_strategy "
    "eval_use_gather_object fp16 fp16_backend fp16_full_eval fp16_opt_level fsdp fsdp_config "
    "fsdp_min_num_params fsdp_transformer_layer_cls_to_wrap full_determinism generation_config "
    "generation_max_length generation_num_beams gradient_accumulation_steps "
    "gradient_checkpointing gradient_checkpointing_kwargs greater_is_better group_by_length "
    "half_precision_backend hub_always_push hub_model_id hub_private_repo hub_revision "
    "hub_strategy hub_token ignore_data_skip include_for_metrics include_inputs_for_metrics "
    "include_num_input_tokens_seen include_tokens_per_second jit_mode_eval label_names "
    "label_smoothing_factor learning_rate length_column_name liger_kernel_config "
    "load_best_model_at_end local_rank log_level log_level_replica log_on_each_node logging_dir "
    "logging_first_step logging_nan_inf_filter logging_steps logging_strategy "
    "lr_scheduler_kwargs lr_scheduler_type max_grad_norm max_steps metric_for_best_model "
    "mp_parameters neftune_noise_alpha no_cuda num_train_epochs optim optim_args "
    "optim_target_modules output_dir overwrite_output_dir parallelism_config past_index "
    "per_device_eval_batch_size per_device_train_batch_size per_gpu_eval_batch_size "
    "per_gpu_train_batch_size predict_with_generate prediction_loss_only project push_to_hub "
    "push_to_hub_model_id push_to_hub_organization push_to_hub_token ray_scope "
    "remove_unused_columns report_to restore_callback_states_from_checkpoint "
    "resume_from_checkpoint run_name save_on_each_node save_only_model save_safetensors "
    "save_steps save_strategy save_total_limit seed skip_memory_metrics sortish_sampler tf32 "
    "torch_compile torch_compile_backend torch_compile_mode torch_empty_cache_steps torchdynamo "
    "tpu_metrics_debug tpu_num_cores trackio_bucket_id trackio_space_id trackio_static_space_id "
    "train_sampling_strategy use_cache use_cpu use_legacy_prediction_loop use_liger_kernel "
    "use_mps_device warmup_ratio warmup_steps weight_decay";

/// TRL 1.16 and 0.23, what accelerate takes from its files, and transformers' own language
/// modelling scripts.
constexpr std::string_view kTrl =
    "accelerate_config activation_offloading alpha assistant_only_loss attn_implementation "
    "base_model_attribute_name beta block_size bnb_4bit_quant_storage bnb_4bit_quant_type "
    "cache_dir cache_implementation cast_lm_head_to_fp32 center_rewards_coefficient "
    "chat_template_kwargs chat_template_path cliprange completion_only_loss config_name "
    "config_overrides cpo_alpha dataset_config dataset_config_name dataset_kwargs dataset_name "
    "dataset_num_proc dataset_streaming dataset_test_split dataset_text_field "
    "dataset_train_split datasets delta desirable_weight disable_dropout discopop_tau "
    "ds3_gather_for_generation dtype entropy_coef entropy_coef_delta entropy_coef_max "
    "entropy_coef_min entropy_target env eos_token epsilon epsilon_high eval_packing exp_name "
    "f_alpha_divergence_coef f_divergence_type force_use_ref_model generate_during_eval "
    "generation_batch_size generation_kwargs gpu_ids gradient_checkpointing_use_reentrant "
    "ignore_bias_buffers importance_sampling_level is_encoder_decoder keep_linebreaks kl_coef "
    "label_pad_token_id label_smoothing ld_alpha line_by_line load_in_4bit load_in_8bit "
    "local_rollout_forward_batch_size log_completions log_completions_hub_repo log_multimodal "
    "log_unique_prompts lora_alpha lora_dropout lora_modules_to_save lora_r lora_target_modules "
    "lora_target_parameters lora_task_type loss_type loss_weights low_cpu_mem_usage machine_rank "
    "main_process_ip main_process_port mask_truncated_completions max_completion_length "
    "max_eval_samples max_length max_prompt_length max_seq_length max_tool_calling_iterations "
    "max_train_samples min_p missing_eos_penalty mixed_precision mlm_probability "
    "model_adapter_name model_init_kwargs model_name_or_path model_revision model_type "
    "multi_objective_aggregation normalize_advantages normalize_reward num_completions_to_print "
    "num_generations num_generations_eval num_iterations num_machines num_mini_batches "
    "num_ppo_epochs num_processes num_sample_generations off_policy_mask_threshold "
    "overwrite_cache packing packing_strategy pad_to_max_length pad_to_multiple_of pad_token "
    "padding_free padding_value precompute_ref_batch_size precompute_ref_log_probs "
    "preprocessing_num_workers ref_adapter_name ref_model_init_kwargs ref_model_mixup_alpha "
    "ref_model_sync_steps reference_free repetition_penalty response_length reward_clip_range "
    "reward_weights rloo_k router_aux_loss_coef rpo_alpha sapo_temperature_neg "
    "sapo_temperature_pos scale_rewards shuffle_dataset simpo_gamma steps_per_generation "
    "stop_token stop_token_id streaming sync_ref_model temperature test_split_size token "
    "token_level_kl tokenizer_name tools top_entropy_quantile top_k top_p torch_dtype "
    "total_episodes train_file transformers_continuous_batching_config truncation_mode "
    "trust_remote_code undesirable_weight use_adaptive_entropy use_bias_correction_kl "
    "use_bnb_nested_quant use_dora use_fast_tokenizer use_liger use_liger_loss "
    "use_logits_to_keep use_peft use_rslora use_transformers_continuous_batching "
    "use_transformers_paged use_vllm use_weighting validation_file validation_split_percentage "
    "vespo_k_neg vespo_k_pos vespo_lambda_neg vespo_lambda_pos vllm_enable_sleep_mode "
    "vllm_gpu_memory_utilization vllm_group_port vllm_guided_decoding_regex "
    "vllm_importance_sampling_cap vllm_importance_sampling_clip_max "
    "vllm_importance_sampling_clip_min vllm_importance_sampling_correction "
    "vllm_importance_sampling_mode vllm_max_model_length vllm_mode vllm_model_impl "
    "vllm_server_base_url vllm_server_host vllm_server_port vllm_server_timeout "
    "vllm_structured_outputs_regex vllm_tensor_parallel_size wandb_log_unique_prompts";

/// LLaMA-Factory 0.9.5, beside TrainingArguments.
constexpr std::string_view kLlamaFactory =
    "adapter_folder adapter_name_or_path add_special_tokens add_tokens additional_target "
    "apollo_layerwise apollo_proj apollo_proj_type apollo_rank apollo_scale apollo_scale_front "
    "apollo_scale_type apollo_target apollo_update_interval asft_alpha audio_sampling_rate "
    "badam_mask_mode badam_mode badam_start_block badam_switch_interval badam_switch_mode "
    "badam_update_ratio badam_verbose buffer_size cache_dir compute_accuracy create_new_adapter "
    "crop_to_patches cutoff_len data_shared_file_system dataset dataset_dir default_system "
    "disable_gradient_checkpointing disable_shuffling do_sample double_quantization "
    "dpo_label_smoothing eaft_alpha early_stopping_steps enable_liger_kernel enable_thinking "
    "enable_torch_profiler eval_dataset eval_num_beams eval_on_each_dataset export_device "
    "export_dir export_hub_model_id export_legacy_format export_quantization_bit "
    "export_quantization_dataset export_quantization_maxlen export_quantization_nsamples "
    "export_size finetuning_type flash_attn fp8 fp8_backend fp8_enable_fsdp_float8_all_gather "
    "freeze_extra_modules freeze_language_model freeze_multi_modal_projector "
    "freeze_trainable_layers freeze_trainable_modules freeze_vision_tower galore_layerwise "
    "galore_proj_type galore_rank galore_scale galore_target galore_update_interval hf_hub_token "
    "hyper_parallel_args ignore_pad_token_for_loss image_do_pan_and_scan image_max_pixels "
    "image_min_pixels include_effective_tokens_per_second infer_backend infer_dtype "
    "init_special_tokens interleave_probs kt_expert_checkpoint_path "
    "kt_lora_expert_intermediate_size kt_lora_expert_num kt_use_lora_experts kt_weight_path "
    "kto_chosen_weight kto_rejected_weight ld_alpha length_penalty lora_alpha lora_dropout "
    "lora_rank lora_target loraplus_lr_embedding loraplus_lr_ratio low_cpu_mem_usage "
    "mask_history master_addr master_port max_length max_new_tokens max_samples media_dir "
    "mix_strategy mixture_of_depths model_name_or_path model_revision module_dropout "
    "moe_aux_loss_coef ms_hub_token neat_packing new_special_tokens_config num_beams "
    "offload_folder oft_block_size oft_rank oft_target om_hub_token overwrite_cache packing "
    "pissa_convert pissa_init pissa_iter plot_loss ppo_buffer_size ppo_epochs ppo_score_norm "
    "ppo_target ppo_whiten_rewards pref_bco_weight pref_beta pref_ftx pref_loss "
    "preprocessing_batch_size preprocessing_num_workers preserve_thinking print_param_status "
    "profile_modules profiler_active_steps profiler_output_dir profiler_profile_memory "
    "profiler_record_shapes profiler_repeat profiler_wait_steps profiler_warmup_steps "
    "profiler_with_stack pure_bf16 quantization_bit quantization_device_map quantization_method "
    "quantization_type ray_init_kwargs ray_num_workers ref_model ref_model_adapters "
    "ref_model_quantization_bit repetition_penalty resize_vocab reward_model "
    "reward_model_adapters reward_model_quantization_bit reward_model_type rope_scaling "
    "sglang_config sglang_lora_backend sglang_maxlen sglang_mem_fraction sglang_tp_size "
    "shift_attn simpo_gamma skip_special_tokens split_special_tokens stage streaming "
    "swanlab_api_key swanlab_lark_secret swanlab_lark_webhook_url swanlab_logdir swanlab_mode "
    "swanlab_project swanlab_run_name swanlab_workspace temperature template tokenized_path "
    "tool_format top_k top_p train_from_scratch train_on_prompt trust_remote_code "
    "upcast_layernorm upcast_lmhead_output use_adam_mini use_apollo use_asft_loss "
    "use_audio_in_video use_badam use_dft_loss use_dora use_eaft_loss use_fast_tokenizer "
    "use_galore use_hyper_parallel use_kt use_kv_cache use_llama_pro use_mca use_muon "
    "use_reentrant_gc use_rslora use_swanlab use_unsloth use_unsloth_gc use_v1_kernels val_size "
    "video_fps video_max_pixels video_maxlen video_min_pixels vllm_config vllm_enforce_eager "
    "vllm_gpu_util vllm_max_lora_rank vllm_maxlen";

/// axolotl 0.19 with its plugins.
constexpr std::string_view kAxolotl =
    "accelerator_config activation_offloading adam_beta1 adam_beta2 adam_beta3 adam_epsilon "
    "adam_epsilon2 adapter added_tokens_overrides attn_implementation auto_find_batch_size "
    "auto_resume_from_checkpoints base_model base_model_config batch_flattening batch_size "
    "bench_dataset bench_split bf16 bfloat16 bnb_config_kwargs center_rewards_coefficient "
    "chat_template chat_template_jinja chat_template_kwargs chunked_cross_entropy "
    "chunked_cross_entropy_num_chunks cls_model_config comet_api_key comet_experiment_config "
    "comet_experiment_key comet_mode comet_online comet_project_name comet_workspace "
    "context_parallel_size cosine_constant_lr_ratio cosine_min_lr_ratio cpo_alpha "
    "curriculum_sampling cut_cross_entropy dataloader_drop_last dataloader_num_workers "
    "dataloader_pin_memory dataloader_prefetch_factor dataset_exact_deduplication "
    "dataset_keep_in_memory dataset_num_proc dataset_prepared_path dataset_processes "
    "dataset_shard_idx dataset_shard_num datasets ddp ddp_broadcast_buffers ddp_bucket_cap_mb "
    "ddp_find_unused_parameters ddp_timeout debug deepcompile deepspeed default_system_message "
    "dense_mixer device device_map diffusion dion_lr dion_momentum dion_rank_fraction "
    "dion_rank_multiple_of do_bench_eval do_causal_lm_eval dp_replicate_size dp_shard_size "
    "dpo_beta dpo_generate_during_eval dpo_label_smoothing dpo_loss_type dpo_loss_weights "
    "dpo_norm_loss dpo_padding_free dpo_use_liger_kernel dpo_use_logits_to_keep "
    "dpo_use_weighting dsv4_bf16_all dsv4_fp4_grouped_mode dsv4_fp8_lora_kernel "
    "dsv4_fp8_nonexpert_mode dsv4_shared_mlp_lora_kernel dynamic_checkpoint eaft_alpha eaft_k "
    "eager_attention early_stopping_patience ebft embedding_lr embedding_lr_scale "
    "embeddings_skip_upcast eot_tokens eval_batch_size eval_causal_lm_metrics "
    "eval_max_new_tokens eval_sample_packing eval_sequence_len eval_steps eval_strategy "
    "eval_table_size evals_per_epoch evaluation_strategy excess_length_strategy "
    "experimental_skip_move_to_device expert_backend expert_parallel_backend "
    "expert_parallel_fallback_on_unsupported expert_parallel_num_nvl_bytes "
    "expert_parallel_num_rdma_bytes expert_parallel_size expert_parallel_token_capacity "
    "experts_implementation fix_untrained_tokens flash_attention flash_attn_cross_entropy "
    "flash_attn_d512 flash_attn_fuse_mlp flash_attn_rms_norm flash_optimum flex_attention "
    "flex_attn_compile_kwargs float16 float32 fp16 fp32_norm_classes fp32_norms fp8 fp8_config "
    "fp8_enable_fsdp_float8_all_gather freeze_mm_modules fsdp fsdp_config "
    "fsdp_final_state_dict_type fsdp_version fused_attn_kernel gc_collect_steps gc_steps "
    "gemma4_fp8_nonexpert gemma4_hybrid_attn_impl gemma4_nf4_nonexpert generate_samples "
    "generation_do_sample generation_max_new_tokens generation_prompt_ratio "
    "generation_temperature generation_top_k generation_top_p gptq gpu_memory_limit "
    "gradient_accumulation_steps gradient_checkpointing gradient_checkpointing_kwargs "
    "gradio_max_new_tokens gradio_server_name gradio_server_port gradio_share gradio_temperature "
    "gradio_title greater_is_better grokfast_alpha grokfast_lamb group_by_length hatchery "
    "heads_k_stride hf_mlflow_log_artifacts hf_use_auth_token hub_model_id hub_revision "
    "hub_strategy image_resize_algorithm image_size include_tkps include_tokens_per_second "
    "is_falcon_derived_model is_llama_derived_model is_mistral_derived_model "
    "is_qwen_derived_model jagged_restart_anneal_steps jagged_restart_steps "
    "jagged_restart_warmup_steps kd_alpha kd_beta kd_ce_alpha kd_normalize_topk kd_online_server "
    "kd_online_server_base_url kd_online_timeout kd_online_topk kd_temperature "
    "kd_temperature_min kd_trainer kto_desirable_weight kto_undesirable_weight "
    "large_head_attention layer_offloading learning_rate liger_cross_entropy "
    "liger_fused_linear_cross_entropy liger_glu_activation liger_kernel_impl liger_layer_norm "
    "liger_rms_norm liger_rms_norm_gated liger_rope liger_swiglu liger_use_token_scaling "
    "lisa_layers_attribute lisa_n_layers lisa_step_interval llama4_linearized_experts "
    "llmcompressor lm_eval_batch_size lm_eval_model lm_eval_post_train lm_eval_tasks "
    "load_best_model_at_end load_in_4bit load_in_8bit local_rank logging_steps lora_alpha "
    "lora_alpha_pattern lora_dropout lora_embedding_kernel lora_fan_in_fan_out lora_mlp_kernel "
    "lora_model_dir lora_modules_to_save lora_o_kernel lora_on_cpu lora_qkv_kernel lora_r "
    "lora_rank_pattern lora_target_linear lora_target_modules lora_target_parameters "
    "loraplus_lr_embedding loraplus_lr_ratio loss_watchdog_patience loss_watchdog_threshold "
    "low_cpu_mem_usage lr_div_factor lr_groups lr_quadratic_warmup lr_scheduler "
    "lr_scheduler_kwargs max_grad_norm max_memory max_packed_sequence_len max_prompt_len "
    "max_steps mean_resizing_embeddings merge_lora merge_method metric_for_best_model "
    "micro_batch_size min_sample_len mlflow_experiment_name mlflow_run_name mlflow_tracking_uri "
    "model_config model_kwargs model_quantization_config model_quantization_config_kwargs "
    "model_revision model_type moe_bnb_fast moe_dequant_chunk_size moe_grouped_backend mora "
    "multipack_real_batches neftune_noise_alpha nemo_gym_auto_clone nemo_gym_auto_start "
    "nemo_gym_config_paths nemo_gym_datasets nemo_gym_dir nemo_gym_enabled nemo_gym_head_port "
    "nemo_gym_max_turns nemo_gym_model_name nemo_gym_multi_turn nemo_gym_run_timeout "
    "nemo_gym_server_timeout nemo_gym_verify_timeout noisy_embedding_alpha "
    "nonexpert_quantization num_dataset_shards_to_save num_epochs num_generation_samples "
    "num_labels nvfp4_merge_aware nvfp4_merge_aware_start_step optim_args optim_target_modules "
    "optimizer orpo_alpha otel_metrics_host otel_metrics_port output_dir pad_to_multiple_of "
    "pad_to_sequence_len peft peft_autocast_adapter_dtype peft_ensure_weight_tying "
    "peft_init_lora_weights peft_layer_replication peft_layers_pattern peft_layers_to_transform "
    "peft_trainable_token_indices peft_use_dora peft_use_rslora ple_cpu_offload plugins "
    "pose_max_context_len pose_num_chunks pose_split_on_token_ids precompute_ref_log_probs "
    "preprocess_iterable pretrain_multipack_attn pretrain_multipack_buffer_size "
    "pretraining_dataset pretraining_sample_concatenation process_reward_model processor_kwargs "
    "processor_type profiler_steps profiler_steps_start push_dataset_to_hub qat "
    "qgalore_cos_threshold qgalore_gamma_proj qgalore_proj_bits qgalore_proj_group_size "
    "qgalore_proj_quant qgalore_proj_type qgalore_queue_size qgalore_rank qgalore_scale "
    "qgalore_update_proj_gap qlora_sharded_model_loading quantization quantize_moe_experts "
    "ray_num_workers ray_run_name recipe reinit_weights relora relora_cpu_offload "
    "relora_prune_method relora_prune_ratio remove_unused_columns resize_token_embeddings_to_32x "
    "resources_per_worker resume_from_checkpoint reward_model ring_attn_func rl rl_beta "
    "role_boundaries rope_scaling rpo_alpha s2_attention sage_attention sample_packing "
    "sample_packing_bin_size sample_packing_eff_est sample_packing_group_size "
    "sample_packing_mp_start_method sample_packing_sequentially save_compressed save_first_step "
    "save_only_model save_safetensors save_steps save_strategy save_total_limit saves_per_epoch "
    "scaling_softmax scaling_softmax_bias scaling_softmax_factor sdp_attention sdpa_varlen seed "
    "selective_checkpointing sequence_len sequence_parallel_degree shrink_embeddings "
    "shuffle_before_merging_datasets shuffle_merged_datasets simpo_gamma skip_prepare_dataset "
    "special_tokens spectrum_model_name spectrum_top_fraction streaming "
    "streaming_multipack_buffer_size strict swanlab_api_host swanlab_api_key "
    "swanlab_completion_log_interval swanlab_completion_max_buffer swanlab_description "
    "swanlab_experiment_name swanlab_lark_secret swanlab_lark_webhook_url "
    "swanlab_log_completions swanlab_log_model swanlab_mode swanlab_project swanlab_web_host "
    "swanlab_workspace tensor_parallel_size test_datasets tf32 tiled_mlp tiled_mlp_num_shards "
    "tiled_mlp_use_original_mlp tokenizer_config tokenizer_legacy tokenizer_save_jinja_files "
    "tokenizer_type tokenizer_use_fast tokenizer_use_mistral_common tokens torch_compile "
    "torch_compile_backend torch_compile_mode torch_compile_options torch_empty_cache_steps "
    "torchdistx_path total_num_tokens total_supervised_tokens trackio_project_name "
    "trackio_run_name trackio_space_id train_on_inputs trainer_cls trl trust_remote_code "
    "unfrozen_parameters use_comet use_dsv4_kernels use_eaft use_glm_dsa_kernels use_kernels "
    "use_mlflow use_mora use_onebitllms use_otel_metrics use_pose use_ray use_scattermoe "
    "use_sonicmoe use_swanlab use_tensorboard use_trackio use_wandb val_set_size vllm "
    "wandb_entity wandb_log_model wandb_mode wandb_name wandb_project wandb_run_id wandb_watch "
    "warmup_ratio warmup_steps weight_decay world_size xformers_attention";

/// ms-swift 4.6, beside TrainingArguments.
constexpr std::string_view kSwift =
    "ENV acc_strategy adalora_beta1 adalora_beta2 adalora_deltaT adalora_init_r "
    "adalora_orth_reg_weight adalora_target_r adalora_tfinal adalora_tinit adapter_act "
    "adapter_length adapters add_non_thinking_prefix add_version advantage_estimator "
    "advantage_reweight agent_template aligner_lr async_generate attn_impl beta "
    "bnb_4bit_compute_dtype bnb_4bit_quant_storage bnb_4bit_quant_type bnb_4bit_use_double_quant "
    "boft_block_num boft_block_size boft_dropout boft_n_butterfly_factor cached_dataset "
    "cached_val_dataset callbacks center_rewards_coefficient check_model "
    "chord_enable_phi_function chord_mu_decay_steps chord_mu_peak chord_mu_valley "
    "chord_mu_warmup_steps chord_sft_dataset chord_sft_per_device_train_batch_size cliprange "
    "cliprange_value columns completion_length_limit_scope config cosine_max_len "
    "cosine_max_len_value_correct cosine_max_len_value_wrong cosine_min_len_value_correct "
    "cosine_min_len_value_wrong cpo_alpha create_checkpoint_symlink custom_dataset_info "
    "custom_register_path dataset dataset_num_proc dataset_shuffle decision_drop_instructions "
    "decision_shuffle_fields decision_state_as_text decision_subsample_options "
    "deepspeed_autotp_size delta desirable_weight device_groups device_map "
    "disable_auto_column_mapping disable_ignore_empty_think discopop_tau download_mode "
    "ds3_gather_for_generation dynamic_sample early_stop_interval enable_channel_loss "
    "enable_dft_loss enable_flattened_weight_sync enable_npu_model_patch enable_thinking epsilon "
    "epsilon_high eval_dataset eval_dataset_args eval_generation_config eval_limit eval_metric "
    "eval_use_evalscope experts_impl external_plugins extra_eval_args fipo_clip_high_only "
    "fipo_clip_range fipo_decay_rate fipo_safety_threshold fourier_n_frequency fourier_scaling "
    "freeze_aligner freeze_llm freeze_parameters freeze_parameters_ratio freeze_parameters_regex "
    "freeze_vit galore_cos_threshold galore_gamma_proj galore_optim_per_parameter "
    "galore_proj_bits galore_proj_group_size galore_proj_quant galore_proj_type "
    "galore_quantization galore_queue_size galore_rank galore_scale galore_target_modules "
    "galore_update_proj_gap galore_with_embedding gamma generation_batch_size gkd_logits_topk "
    "gym_env hqq_axis ignore_args_error importance_sampling_level init_strategy init_weights "
    "interleave_prob is_binary_loss_scale kl_coef kl_in_reward label_smoothing lam lazy_tokenize "
    "ld_alpha lisa_activated_layers lisa_step_interval llamapro_num_groups "
    "llamapro_num_new_blocks lmbda load_args load_data_args load_from_cache_file local_repo_path "
    "local_rollout_forward_batch_size log_completions log_entropy log_rollout_offpolicy_metrics "
    "logprobs lora_alpha lora_bias lora_dropout lora_dtype lora_ga_batch_size lora_ga_direction "
    "lora_ga_iters lora_ga_max_length lora_ga_scale lora_ga_stable_gamma lora_rank "
    "lorap_lr_ratio loss_scale loss_type loss_weights max_completion_length max_epochs "
    "max_length max_memory max_model_len max_new_tokens max_pixels max_resample_times "
    "max_shard_size max_turns min_p missing_eos_penalty model model_author model_kwargs "
    "model_name model_revision model_type modules_to_save move_model_batches mrl_dims "
    "multi_turn_scheduler new_special_tokens norm_bbox num_beams num_generations "
    "num_generations_eval num_iterations num_labels num_mini_batches num_ppo_epochs "
    "num_sample_generations off_policy_sequence_mask_delta offload_model offload_optimizer "
    "offload_teacher_model optimizer overlong_filter packing packing_length packing_num_proc "
    "packing_strategy padding_free padding_side preserve_thinking problem_type quant_bits "
    "quant_method ray_exp_name real_tau ref_adapter_name ref_adapters ref_model "
    "ref_model_mixup_alpha ref_model_revision ref_model_sync_steps ref_model_type reference_free "
    "reft_args reft_intervention_type reft_layer_key reft_layers reft_rank "
    "repetition_max_penalty repetition_n_grams repetition_penalty response_length "
    "response_prefix resume_only_model reward_adapters reward_funcs reward_model "
    "reward_model_plugin reward_model_revision reward_model_type reward_template reward_weights "
    "rlhf_type rlsd_lambda rlsd_lambda_decay_steps rlsd_lambda_warmup_steps rlsd_negative_only "
    "rlsd_reweight_clip_range rollout_importance_sampling_mode "
    "rollout_importance_sampling_threshold rope_scaling router_aux_loss_coef rpo_alpha "
    "safe_serialization scale_rewards sdar_gate_beta sdar_loss_coef seq_kd "
    "sequence_parallel_size sft_alpha shuffle_buffer_size simpo_gamma sleep_level "
    "soft_cache_length soft_max_length split_dataset_ratio steps_per_generation stop_words "
    "stopping_strategy stream streaming strict structured_outputs_regex swanlab_email_language "
    "swanlab_exp_name swanlab_mode swanlab_notification_method swanlab_project "
    "swanlab_receiver_email swanlab_secret swanlab_sender_email swanlab_smtp_port "
    "swanlab_smtp_server swanlab_token swanlab_webhook_url swanlab_workspace sync_ref_model "
    "system target_modules target_parameters target_regex task_type tau_neg tau_pos "
    "teacher_adapters teacher_deepspeed teacher_kl_coef teacher_model teacher_model_revision "
    "teacher_model_server teacher_model_type teacher_tag_key temperature template "
    "template_backend top_entropy_quantile top_k top_logprobs top_p torch_dtype "
    "train_dataloader_shuffle train_type trainable_parameters trainable_parameters_regex "
    "truncation_strategy tuner_backend tuner_type undesirable_weight use_chat_template use_dora "
    "use_flash_ckpt use_galore use_gym_env use_hf use_logits_to_keep use_ray use_rslora "
    "use_swift_lora use_vllm val_dataset val_dataset_shuffle vera_d_initial vera_dropout "
    "vera_projection_prng_key vera_rank vf_coef vit_gradient_checkpointing vit_lr "
    "vllm_data_parallel_size vllm_disable_cascade_attn vllm_disable_custom_all_reduce "
    "vllm_enable_expert_parallel vllm_enable_lora vllm_enable_prefix_caching vllm_enforce_eager "
    "vllm_engine_kwargs vllm_gpu_memory_utilization vllm_limit_mm_per_prompt vllm_max_lora_rank "
    "vllm_max_model_len vllm_max_num_seqs vllm_mm_processor_cache_gb vllm_mode "
    "vllm_pipeline_parallel_size vllm_quantization vllm_reasoning_parser vllm_server_base_url "
    "vllm_server_group_port vllm_server_host vllm_server_pass_dataset vllm_server_port "
    "vllm_server_timeout vllm_speculative_config vllm_tensor_parallel_size vllm_use_async_engine "
    "wandb_log_unique_prompts whiten_rewards zero_hpz_partition_size";

/// accelerate 1.15.
constexpr std::string_view kAccelerate =
    "command_file commands compute_environment debug deepspeed_config distributed_type "
    "downcast_bf16 dynamo_config enable_cpu_affinity fp8_config fsdp_config gpu_ids ipex_config "
    "machine_rank main_process_ip main_process_port main_training_function megatron_lm_config "
    "mixed_precision mpirun_config num_machines num_processes parallelism_config rdzv_backend "
    "same_network tpu_env tpu_name tpu_use_cluster tpu_use_sudo tpu_vm tpu_zone use_cpu";

/// Of batch, length, accumulation, type, checkpointing and adapters.
constexpr std::string_view kDeciding =
    "per_device_train_batch_size micro_batch_size gradient_accumulation_steps max_length "
    "max_seq_length block_size cutoff_len sequence_len packing sample_packing neat_packing bf16 "
    "fp16 pure_bf16 bfloat16 float16 dtype torch_dtype mixed_precision gradient_checkpointing "
    "disable_gradient_checkpointing use_peft finetuning_type adapter tuner_type train_type lora_r "
    "lora_rank lora_target lora_target_modules lora_target_linear target_modules load_in_4bit "
    "load_in_8bit quantization_bit quant_bits num_processes num_machines distributed_type "
    "deepspeed_config";

struct Keys {
  TrainingProgram program;
  std::string_view whose;
  std::array<std::string_view, 2> names;
  bool stops = true;  ///< at a key that it does not know
};
constexpr auto kPrograms = std::to_array<Keys>({
    {TrainingProgram::kTrainer, "transformers' Trainer and TRL", {kTrainer, kTrl}},
    {TrainingProgram::kLlamaFactory, "LLaMA-Factory", {kTrainer, kLlamaFactory}},
    {TrainingProgram::kAxolotl, "axolotl", {kAxolotl, ""}, false},
    {TrainingProgram::kSwift, "ms-swift", {kTrainer, kSwift}},
    {TrainingProgram::kAccelerate, "accelerate", {kAccelerate, ""}},
});

std::vector<std::string> words_in(std::string_view text) {
  std::vector<std::string> words;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    words.emplace_back(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
  }
  return words;
}

/// Sorted.
std::vector<std::string> names_of(const Keys& keys) {
  std::vector<std::string> names = words_in(keys.names[0]);
  for (std::string& name : words_in(keys.names[1])) names.push_back(std::move(name));
  std::sort(names.begin(), names.end());
  return names;
}

/// The nearest name by its letters, else the shortest that begins so; empty: none.
std::string near(const std::string& key, const std::vector<std::string>& names) {
  constexpr std::size_t kLeast = 6;
  if (const std::string* const name = nearest_word(key, names)) return *name;
  std::string best;
  for (const std::string& name : names) {
    if (key.size() < kLeast || !name.starts_with(key)) continue;
    if (best.empty() || name.size() < best.size()) best = name;
  }
  return best;
}

/// But those without a value, which change nothing.
std::vector<const Node::Entry*> unknown_in(const Node& root,
                                           const std::vector<std::string>& names) {
  std::vector<const Node::Entry*> unknown;
  for (const Node::Entry& entry : root.entries) {
    if (entry.value.kind == Node::Kind::kNull) continue;
    if (!std::binary_search(names.begin(), names.end(), entry.key)) unknown.push_back(&entry);
  }
  return unknown;
}

/// Names the program that knows most of the keys.
[[noreturn]] void refuse_file(const Node& root, const fs::path& file) {
  std::vector<const Node::Entry*> unknown;
  std::string_view whose;
  for (const Keys& keys : kPrograms) {
    std::vector<const Node::Entry*> others = unknown_in(root, names_of(keys));
    if (!whose.empty() && others.size() >= unknown.size()) continue;
    unknown = std::move(others);
    whose = keys.whose;
  }
  constexpr std::size_t kShown = 10;
  std::vector<std::string> names;
  for (const Node::Entry* const entry : unknown) {
    if (names.size() < kShown) names.push_back(printable_name(entry->key));
  }
  if (unknown.size() > kShown) names.push_back(fmt::format("{} more", unknown.size() - kShown));
  throw Error(ErrorKind::kInput,
              fmt::format("{}: expected a file of a program that is known here: nearest is {}, "
                          "which has no {}",
                          file.generic_string(), whose, fmt::join(names, ", ")));
}

}  // namespace

void refuse_other_programs(const Node& root) {
  if (const Node* const hardware = root.find("hardware");
      hardware != nullptr && root.find("training") != nullptr) {
    fail_at(hardware->at, "hardware",
            "expected a job's own file, found a scenario: zenflow-sim run, fit, explain FILE");
  }
  for (const Node::Entry& entry : root.entries) {
    const Node* const component = entry.value.find("_component_");
    if (component == nullptr) continue;
    fail_at(component->at, entry.key + "._component_",
            "expected a file of DeepSpeed, accelerate, transformers' Trainer, TRL, LLaMA-Factory, "
            "axolotl or ms-swift, found a recipe of torchtune, which is not simulated: say by "
            "flags what it trains");
  }
}

void check_keys(const Node& root, TrainingProgram program, const fs::path& file,
                std::vector<std::string>& notes) {
  const auto* const keys = std::ranges::find_if(
      kPrograms, [program](const Keys& one) { return one.program == program; });
  if (keys == kPrograms.end()) return;
  const std::vector<std::string> names = names_of(*keys);
  const std::vector<const Node::Entry*> unknown = unknown_in(root, names);
  if (2 * unknown.size() > unknown_in(root, {}).size()) refuse_file(root, file);
  const std::vector<std::string> deciding = words_in(kDeciding);
  const Node::Entry* wrong = nullptr;
  std::vector<std::string> misspelt;
  std::vector<std::string> near_notes;
  std::vector<std::string> others;
  for (const Node::Entry* const entry : unknown) {
    const std::string meant = near(entry->key, names);
    const std::string shown = printable_name(entry->key);
    if (meant.empty()) {
      others.push_back(shown);
      continue;
    }
    const bool decides = std::ranges::find(deciding, meant) != deciding.end();
    if (wrong == nullptr && decides && keys->stops) wrong = entry;
    misspelt.push_back(fmt::format("{}: did you mean {}?", shown, meant));
    near_notes.push_back(fmt::format("{}: {}: no key of {}{}: did you mean {}?",
                                     entry->key_at.text(), shown, keys->whose,
                                     keys->stops ? "" : ", which ignores it", meant));
  }
  if (wrong != nullptr) {
    misspelt.insert(misspelt.end(), others.begin(), others.end());
    fail_at(wrong->key_at, "",
            fmt::format("expected keys of {}, which stops at others; {}", keys->whose,
                        fmt::join(misspelt, "; ")));
  }
  notes.insert(notes.end(), near_notes.begin(), near_notes.end());
  if (others.empty()) return;
  notes.push_back(fmt::format("{}: no keys of {}, not read: {}", file.generic_string(), keys->whose,
                              fmt::join(others, ", ")));
}

}  // namespace zenflow::sim
